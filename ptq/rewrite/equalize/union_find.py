"""Which numbers stand for one thing? Union and find; the least number stands for all that are tied to it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

GroupNumbers = NDArray[np.int64]


class UnionFind:
    """Numbers from 0 on, 0 being there from the start."""

    def __init__(self) -> None:
        self._parent = [0]

    def add_elements(self, count: int) -> GroupNumbers:
        """So many further numbers, tied to none."""
        start = len(self._parent)
        self._parent.extend(range(start, start + count))
        return np.arange(start, start + count)

    def union(self, first: GroupNumbers, second: GroupNumbers) -> None:
        """Tie numbers pair by pair."""
        for a, b in zip(first.tolist(), second.tolist(), strict=True):
            low, high = sorted((self._find_root(a), self._find_root(b)))
            self._parent[high] = low

    def group_numbers(self) -> tuple[int, GroupNumbers]:
        """How many things there are, and by number which one it stands for, without gaps; 0 for 0."""
        roots = np.array([self._find_root(n) for n in range(len(self._parent))])
        kept, numbers = np.unique(roots, return_inverse=True)
        return len(kept), numbers

    def _find_root(self, number: int) -> int:
        root = number
        while self._parent[root] != root:
            root = self._parent[root]
        while self._parent[number] != root:
            self._parent[number], number = root, self._parent[number]
        return root
