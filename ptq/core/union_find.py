"""Union-find: groups of elements that are united pair by pair."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

Element = TypeVar("Element", bound=Hashable)


class UnionFind(Generic[Element]):
    """Groups of elements; one element of each represents it."""

    def __init__(self, elements: Iterable[Element] = ()) -> None:
        """Make each element a group of its own."""
        self._parent = {element: element for element in elements}

    def __contains__(self, element: Element) -> bool:
        return element in self._parent

    def __len__(self) -> int:
        return len(self._parent)

    def add(self, element: Element) -> None:
        """Add an element as a group of its own, if it is new."""
        self._parent.setdefault(element, element)

    def find_root(self, element: Element) -> Element:
        """The representative of the element's group."""
        parent = self._parent
        while (above := parent[element]) != element:
            parent[element] = element = parent[above]
        return element

    def union(self, leader: Element, follower: Element) -> None:
        """Unite two groups; the representative of the leader's stands for both."""
        self._parent[self.find_root(follower)] = self.find_root(leader)

    def list_groups(self) -> list[list[Element]]:
        """The groups, in the order of their first elements; the elements of each in the order of their addition."""
        groups: dict[Element, list[Element]] = {}
        for element in self._parent:
            groups.setdefault(self.find_root(element), []).append(element)
        return list(groups.values())
