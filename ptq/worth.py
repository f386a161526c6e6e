"""Which nodes are worth integers, when it is up to speed alone?

Products (Conv, Gemm, MatMul) always are. What stands between them, sums, activations, pools, movements, is worth
integers where its neighbours are: every crossing costs a quantizer over the whole tensor. The cheapest division
of a graph is a minimum cut; of two equally cheap ones the one with more integers is taken.
A model without products that can be all integers becomes so.

Costs are counted in passes over the elements of a tensor: a quantizer is one, an operator one and on four bytes
a value one and a half, a movement of single bytes a quarter, an operator that runs in float between quantizers
three, another view of the same bytes nothing. A product whose kernel hands out real numbers costs nothing to
read in float.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy

from ptq.graph import Graph
from ptq.nodes import Node, Value, constant, consumers, dtype_of, shape_of
from ptq.opspec import PASSES, TABLE, OpSpec, Role
from ptq.targets import Target

_TOTAL = 2**28  # of all capacities: their sums stay in int32, as scipy counts flows
_REAL_COST = 1.5
_VIEWS = frozenset(["Flatten", "Identity", "Reshape", "Shape", "Squeeze", "Unsqueeze"])
_INTEGERS, _REALS = 0, 1  # the two ends of the cut


def not_worth(
    graph: Graph, specs: Mapping[str, OpSpec], fused: Collection[str], target: Target
) -> list[str]:
    """The nodes that could be quantized and had better stay float.

    Args:
        graph: The prepared graph.
        specs: The rows of the nodes that could be quantized, by name.
        fused: Those whose work the node before them does for nothing.
        target: What it shall run on. One with tables of its own computes on integers alone, whatever that costs.
    """
    nodes = {node.name or "": node for node in graph.nodes if node.name in specs}
    if not target.tables and any(_is_product(spec) for spec in specs.values()):
        free, idle = {name for name in nodes if not _is_product(specs[name])}, list[str]()
    else:
        free = set[str]()
        idle = [n for c in _components(nodes) if all(specs[n].moves for n in c) for n in c]
    if not free:
        return [] if len(idle) == len(graph.nodes) else idle
    network = _Network()
    for name in sorted(free):
        passes = _size(nodes[name])
        if specs[name].op not in _VIEWS:
            network.edge(_INTEGERS, name, passes * _REAL_COST)
            cost = 0.0 if name in fused else _integer_cost(specs[name])
            network.edge(name, _REALS, passes * cost)
    places: dict[str, str | int] = dict.fromkeys(nodes.keys() - set(idle), _INTEGERS)
    places.update((name, name) for name in free)
    for value in _tensors(nodes.values()):
        _cross(network, value, places, specs, target)
    kept = network.integers()
    return [name for name in nodes if name in idle or (name in free and name not in kept)]


def _tensors(nodes: Iterable[Node]) -> list[Value]:
    """The real tensors that the nodes read or write."""
    values = [value for node in nodes for value in (*node.inputs, *node.outputs) if value]
    return [v for v in dict.fromkeys(values) if constant(v) is None and dtype_of(v) == np.float32]


def _cross(
    network: _Network,
    value: Value,
    places: Mapping[str, str | int],
    specs: Mapping[str, OpSpec],
    target: Target,
) -> None:
    """What it costs where a tensor is read as what it is not written as."""
    size = max((math.prod(d or 1 for d in shape_of(value) or ()), 1))
    readers: set[str | int] = {_REALS} if value.is_graph_output() else set()
    readers |= {places.get(reader.name or "", _REALS) for reader in consumers(value)}
    any_integer, any_real = f"{value.name} as integers", f"{value.name} as reals"
    for reader in readers:
        network.edge(reader, any_integer, math.inf)
        network.edge(any_real, reader, math.inf)
    maker = value.producer()
    name = maker.name or "" if maker is not None else ""
    if name in specs and specs[name].real is not None and target.real_outputs:
        network.edge(any_integer, any_real, size)
    else:
        network.edge(any_integer, places.get(name, _REALS), size)
        network.edge(places.get(name, _REALS), any_real, size)


def _size(node: Node) -> int:
    """The elements of the largest tensor that the node reads or writes, varying dimensions left out."""
    values = [value for value in (*node.inputs, *node.outputs) if value is not None]
    return max(math.prod(d or 1 for d in shape_of(value) or ()) for value in values)


@dataclass
class _Network:
    """A flow network; what stays on the source's side is worth integers."""

    edges: dict[tuple[int, int], float] = field(default_factory=dict)
    places: dict[str | int, int] = field(default_factory=lambda: {_INTEGERS: 0, _REALS: 1})

    def edge(self, start: str | int, end: str | int, cost: float) -> None:
        """Let it cost that much to part the two, the first with integers, the second without."""
        ends = tuple(self.places.setdefault(place, len(self.places)) for place in (start, end))
        if ends[0] != ends[1] and cost:
            self.edges[ends[0], ends[1]] = self.edges.get((ends[0], ends[1]), 0.0) + cost

    def integers(self) -> set[str | int]:
        """The largest source side of the cheapest cuts."""
        finite = sum(cost for cost in self.edges.values() if cost < math.inf)
        unit = max(finite, 1.0) / _TOTAL
        capacities = [
            2 * _TOTAL if cost == math.inf else max(1, round(cost / unit))
            for cost in self.edges.values()
        ]
        rows, columns = zip(*self.edges, strict=True)
        shape: Any = (len(self.places), len(self.places))
        counts: Any = np.asarray(capacities, np.int32)
        capacity: Any = scipy.sparse.csr_array((counts, (rows, columns)), shape)
        flows = scipy.sparse.csgraph  # loaded when first asked for, as all of SciPy's parts are
        residual = capacity - flows.maximum_flow(capacity, _INTEGERS, _REALS).flow
        residual.data = np.maximum(residual.data, 0)
        residual.eliminate_zeros()
        reached = flows.breadth_first_order(residual.T, _REALS, return_predecessors=False)
        reals = set(reached.tolist())
        return {place for place, index in self.places.items() if index not in reals}


def _is_product(spec: OpSpec) -> bool:
    return spec.absorbs and Role.WEIGHT in spec.inputs


def _integer_cost(spec: OpSpec) -> float:
    return 0.25 if spec.qlinear is PASSES else 3.0 if spec.qlinear is TABLE else 1.0


def _components(nodes: Mapping[str, Node]) -> list[list[str]]:
    """The nodes, those together that hand tensors to one another."""
    root = {name: name for name in nodes}

    def find(name: str) -> str:
        while root[name] != name:
            root[name] = root[root[name]]
            name = root[name]
        return name

    for name, node in nodes.items():
        for value in node.inputs:
            maker = value.producer() if value is not None else None
            if maker is not None and maker.name in nodes:
                root[find(name)] = find(maker.name or "")
    together: dict[str, list[str]] = {}
    for name in nodes:
        together.setdefault(find(name), []).append(name)
    return list(together.values())
