"""Oracle: the connected components that SciPy finds."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ptq.rewrite.equalize.channel_ties import ChannelTies


def test_what_is_tied_by_whatever_way_has_one_number():
    rng = np.random.default_rng(0)
    ties = ChannelTies()
    assert ties.add_elements(30).tolist() == list(range(1, 31))
    assert ties.add_elements(20).tolist() == list(range(31, 51))
    first, second = rng.integers(0, 51, (2, 30))
    ties.union(first, second)
    count, numbers = ties.group_numbers()
    where = first.astype(np.int32), second.astype(np.int32)  # SciPy 1.11 takes no longer ones
    there = coo_array((np.ones(30), where), shape=(51, 51))
    expected, labels = connected_components(there, directed=False)
    assert count == expected
    pairs = set(zip(numbers.tolist(), labels.tolist(), strict=True))
    assert len(pairs) == count
    assert numbers[0] == 0
