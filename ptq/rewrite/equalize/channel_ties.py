"""Groups of numbers, which stand for channels; the least number of a group represents it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

GroupNumbers = NDArray[np.int64]


class ChannelTies:
    """Groups of the numbers from 0 on; 0 exists from the start.

    `ptq.core.union_find` has the same for elements of any kind; a model has 100,000 channels and more.
    """

    def __init__(self) -> None:
        self._parent = [0]

    def add_elements(self, count: int) -> GroupNumbers:
        """Add this many numbers, each a group of its own; the new numbers."""
        start = len(self._parent)
        self._parent.extend(range(start, start + count))
        return np.arange(start, start + count)

    def union(self, first: GroupNumbers, second: GroupNumbers) -> None:
        """Unite the groups of numbers, pair by pair."""
        for a, b in zip(first.tolist(), second.tolist(), strict=True):
            one, other = self._find_root(a), self._find_root(b)
            self._parent[max(one, other)] = min(one, other)

    def group_numbers(self) -> tuple[int, GroupNumbers]:
        """The number of groups, and the group of each number, counted without gaps; 0 is in group 0."""
        roots = np.array(self._parent)
        while (roots[roots] != roots).any():
            roots = roots[roots]
        is_root = roots == np.arange(len(roots))
        return int(is_root.sum()), (np.cumsum(is_root) - 1)[roots]

    def _find_root(self, number: int) -> int:
        root = number
        while self._parent[root] != root:
            root = self._parent[root]
        while self._parent[number] != root:
            self._parent[number], number = root, self._parent[number]
        return root
