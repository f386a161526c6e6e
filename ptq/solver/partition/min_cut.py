"""Minimum cut of a flow network: the cheapest partition into an integer side and a float side.

Of two equally cheap partitions the one with more integers is taken.

The maximum flow is Dinic's: in each phase, flow is added along the shortest paths until none is left. Dinic 1970,
"Algorithm for solution of a problem of maximum flow in a network with power estimation". Networks have few hundred
vertices and need few phases: less time than loading the graph algorithms of SciPy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

INTEGERS, FLOATS = 0, 1
"""Source and sink of the network."""
_TOTAL_CAPACITY = 2**28
"""Sum of all finite capacities, which are whole numbers."""

_Residual = list[dict[int, int]]
"""The capacity that flow has left of each edge, by the indices of its two vertices."""


@dataclass
class MinCut:
    """A flow network; the source side of its minimum cut becomes integers.

    Attributes:
        edges: Capacity of each edge, by the indices of its two vertices.
        vertices: Index of each vertex, by name.
    """

    edges: dict[tuple[int, int], float] = field(default_factory=dict)
    vertices: dict[str | int, int] = field(default_factory=lambda: {INTEGERS: 0, FLOATS: 1})

    def add_edge(self, start: str | int, end: str | int, cost: float) -> None:
        """Add a cost for ``start`` on the integer side while ``end`` is on the float side."""
        first = self.vertices.setdefault(start, len(self.vertices))
        second = self.vertices.setdefault(end, len(self.vertices))
        if first != second and cost:
            self.edges[first, second] = self.edges.get((first, second), 0.0) + cost

    def source_side(self) -> set[str | int]:
        """The vertices on the integer side: of all minimum cuts the side with the most vertices."""
        left = self._capacities()
        while INTEGERS in (distances := _compute_distances_to_sink(left)):
            _push_flow(left, distances)
        return {name for name, index in self.vertices.items() if index not in distances}

    def _capacities(self) -> _Residual:
        finite = sum(cost for cost in self.edges.values() if cost < math.inf)
        # a power of two, so that costs in quarters of a pass stay exact and equal costs stay equal
        unit = 2.0 ** math.ceil(math.log2(max(finite, 1.0) / _TOTAL_CAPACITY))
        left: _Residual = [{} for _ in self.vertices]
        for (start, end), cost in self.edges.items():
            capacity = 2 * _TOTAL_CAPACITY if cost == math.inf else max(1, round(cost / unit))
            left[start][end] = left[start].get(end, 0) + capacity
            left[end].setdefault(start, 0)
        return left


def _compute_distances_to_sink(left: _Residual) -> dict[int, int]:
    """The number of edges from each vertex to the sink, for the vertices from which flow can reach it."""
    distances, reached = {FLOATS: 0}, [FLOATS]
    for end in reached:
        for start in left[end]:
            if start not in distances and left[start][end]:
                distances[start] = distances[end] + 1
                reached.append(start)
    return distances


def _push_flow(left: _Residual, distances: Mapping[int, int]) -> None:
    """Add flow from the source to the sink along shortest paths, until none of these has capacity left."""
    ahead, path = [list(ends) for ends in left], [INTEGERS]
    while path:
        last = path[-1]
        if last == FLOATS:
            edges = list(pairwise(path))
            flow = min(left[start][end] for start, end in edges)
            for start, end in edges:
                left[start][end] -= flow
                left[end][start] += flow
            del path[next(k for k, (start, end) in enumerate(edges, 1) if not left[start][end]) :]
            continue
        ends, nearer = ahead[last], distances[last] - 1
        while ends and not (left[last][ends[-1]] and distances.get(ends[-1]) == nearer):
            ends.pop()
        if ends:
            path.append(ends[-1])
        else:
            path.pop()
            if path:
                ahead[path[-1]].pop()
