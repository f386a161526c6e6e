"""Oracle: the connected components that SciPy finds, and groups written out by hand."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ptq.core.union_find import UnionFind


def test_groups_are_the_connected_components():
    first, second = np.random.default_rng(0).integers(0, 50, (2, 30))
    groups = UnionFind(range(50))
    for a, b in zip(first.tolist(), second.tolist(), strict=True):
        groups.union(a, b)
    where = first.astype(np.int32), second.astype(np.int32)  # SciPy 1.11 takes no longer ones
    there = coo_array((np.ones(30), where), shape=(50, 50))
    expected, labels = connected_components(there, directed=False)
    found = groups.list_groups()
    assert len(found) == expected
    assert [sorted(group) for group in found] == found
    assert all(len(set(labels[group])) == 1 for group in found)
    assert sorted(element for group in found for element in group) == list(range(50))


def test_the_leader_represents_both_groups_and_first_elements_order_them():
    groups = UnionFind("abcd")
    groups.union("d", "a")
    groups.union("c", "a")
    groups.add("e")
    groups.add("a")
    assert "e" in groups
    assert [groups.find_root(name) for name in "acde"] == ["c", "c", "c", "e"]
    assert groups.list_groups() == [["a", "c", "d"], ["b"], ["e"]]
