"""Minimum cut of a flow network: the cheapest partition into an integer side and a float side.

Of two equally cheap partitions the one with more integers is taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy

INTEGERS, FLOATS = 0, 1
"""Source and sink of the network."""
_TOTAL_CAPACITY = 2**28
"""Sum of all finite capacities: sums stay in int32, in which SciPy counts flows."""


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
        ends = tuple(self.vertices.setdefault(name, len(self.vertices)) for name in (start, end))
        if ends[0] != ends[1] and cost:
            self.edges[ends[0], ends[1]] = self.edges.get((ends[0], ends[1]), 0.0) + cost

    def source_side(self) -> set[str | int]:
        """The vertices on the integer side: of all minimum cuts the side with the most vertices."""
        finite = sum(cost for cost in self.edges.values() if cost < math.inf)
        # a power of two, so that costs in quarters of a pass stay exact and equal costs stay equal
        unit = 2.0 ** math.ceil(math.log2(max(finite, 1.0) / _TOTAL_CAPACITY))
        capacities = [
            2 * _TOTAL_CAPACITY if cost == math.inf else max(1, round(cost / unit))
            for cost in self.edges.values()
        ]
        # SciPy before 1.12 keeps the type of the indices, and its algorithms take int32 only
        rows, columns = np.asarray(list(self.edges), np.int32).T
        shape: Any = (len(self.vertices), len(self.vertices))
        counts: Any = np.asarray(capacities, np.int32)
        capacity: Any = scipy.sparse.csr_array((counts, (rows, columns)), shape)
        # SciPy loads the submodule when it is first used
        flows = scipy.sparse.csgraph
        residual = capacity - flows.maximum_flow(capacity, INTEGERS, FLOATS).flow
        residual.data = np.maximum(residual.data, 0)
        residual.eliminate_zeros()
        reached = flows.breadth_first_order(residual.T, FLOATS, return_predecessors=False)
        floats = set(reached.tolist())
        return {name for name, index in self.vertices.items() if index not in floats}
