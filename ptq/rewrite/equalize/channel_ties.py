"""Groups of numbers, which stand for channels; the least number of a group represents it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptq.core.union_find import UnionFind

GroupNumbers = NDArray[np.int64]


class ChannelTies:
    """Groups of the numbers from 0 on; 0 exists from the start."""

    def __init__(self) -> None:
        self._groups = UnionFind([0])

    def add_elements(self, count: int) -> GroupNumbers:
        """Add this many numbers, each a group of its own; the new numbers."""
        added = np.arange(count) + len(self._groups)
        for number in added.tolist():
            self._groups.add(number)
        return added

    def union(self, first: GroupNumbers, second: GroupNumbers) -> None:
        """Unite the groups of numbers, pair by pair."""
        find_root = self._groups.find_root
        for a, b in zip(first.tolist(), second.tolist(), strict=True):
            one, other = find_root(a), find_root(b)
            self._groups.union(min(one, other), max(one, other))

    def group_numbers(self) -> tuple[int, GroupNumbers]:
        """The number of groups, and the group of each number, counted without gaps; 0 is in group 0."""
        numbers = range(len(self._groups))
        roots = np.array([self._groups.find_root(number) for number in numbers])
        is_root = roots == np.arange(len(roots))
        return int(is_root.sum()), (np.cumsum(is_root) - 1)[roots]
