"""Which division of things into integers and reals is the cheapest, if parting two of them costs something?

A minimum cut: of two that are equally cheap the one with more integers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy

INTEGERS, REALS = 0, 1
"""The two ends of the cut."""
_TOTAL_CAPACITY = 2**28  # of all capacities: their sums stay in int32, as scipy counts flows


@dataclass
class MinCut:
    """A flow network; what stays on the source's side is worth integers."""

    edges: dict[tuple[int, int], float] = field(default_factory=dict)
    vertices: dict[str | int, int] = field(default_factory=lambda: {INTEGERS: 0, REALS: 1})

    def add_edge(self, start: str | int, end: str | int, cost: float) -> None:
        """Let it cost that much to part the two, the first with integers, the second without."""
        ends = tuple(self.vertices.setdefault(place, len(self.vertices)) for place in (start, end))
        if ends[0] != ends[1] and cost:
            self.edges[ends[0], ends[1]] = self.edges.get((ends[0], ends[1]), 0.0) + cost

    def source_side(self) -> set[str | int]:
        """The largest source side of the cheapest cuts."""
        finite = sum(cost for cost in self.edges.values() if cost < math.inf)
        # a power of two, in which quarters are whole numbers and so equal costs equal
        unit = 2.0 ** math.ceil(math.log2(max(finite, 1.0) / _TOTAL_CAPACITY))
        capacities = [
            2 * _TOTAL_CAPACITY if cost == math.inf else max(1, round(cost / unit))
            for cost in self.edges.values()
        ]
        rows, columns = zip(*self.edges, strict=True)
        shape: Any = (len(self.vertices), len(self.vertices))
        counts: Any = np.asarray(capacities, np.int32)
        capacity: Any = scipy.sparse.csr_array((counts, (rows, columns)), shape)
        flows = scipy.sparse.csgraph  # loaded when first asked for, as all of SciPy's parts are
        residual = capacity - flows.maximum_flow(capacity, INTEGERS, REALS).flow
        residual.data = np.maximum(residual.data, 0)
        residual.eliminate_zeros()
        reached = flows.breadth_first_order(residual.T, REALS, return_predecessors=False)
        reals = set(reached.tolist())
        return {place for place, index in self.vertices.items() if index not in reals}
