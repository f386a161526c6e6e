"""Which nodes are worth integers, when it is up to speed alone?

Products (Conv, Gemm, MatMul) are. What stands between them, sums, activations, pools, movements, is worth
integers where its neighbours are: every crossing costs a quantizer over the whole tensor. The cheapest division
of a graph is a minimum cut; of two equally cheap ones the one with more integers is taken.
A model without products that can be all integers becomes so.

Where ONNX Runtime's integers for all products would be no faster than float, as of small networks of few channels,
products are weighed like the others, and those stay float that are slower on integers and gain their neighbours
nothing.

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
from ptq.nodes import Node, Value, constant, consumers, dtype_of, operator
from ptq.opspec import PASSES, TABLE, OpSpec, Role
from ptq.scope.costs import VIEWS, Cost, Sizes, cost, sizes
from ptq.targets import Target

_TOTAL = 2**28  # of all capacities: their sums stay in int32, as scipy counts flows
_REAL_COST = 1.5
_CALLS = 250_000
"""Passes, 50 µs: below them calls and copies take longer than what is computed."""
_INTEGERS, _REALS = 0, 1  # the two ends of the cut


def not_worth(
    graph: Graph, specs: Mapping[str, OpSpec], fused: Mapping[str, str], target: Target
) -> list[str]:
    """The nodes that could be quantized and had better stay float.

    Args:
        graph: The prepared graph.
        specs: The rows of the nodes that could be quantized, by name.
        fused: Those whose work the node before them does for nothing, and that node.
        target: What it shall run on. One with tables of its own computes on integers alone, whatever that costs.
    """
    nodes = {node.name or "": node for node in graph.nodes if node.name in specs}
    products = {name for name in nodes if _is_product(specs[name])}
    if target.tables or not products:
        idle = [n for c in _components(nodes) if all(specs[n].moves for n in c) for n in c]
        return [] if len(idle) == len(graph.nodes) else idle
    size = sizes(graph)
    rules = {n: cost(node, specs[n], size) for n, node in nodes.items()}
    plain = {
        n: Cost(_real_cost(node, size), _integer_cost(specs[n]) * _largest(node, size))
        for n, node in nodes.items()
    }
    problem = _Problem(nodes, specs, fused, size, target)
    kept = problem.kept(nodes.keys() - products, plain)
    if target.real_outputs and _gains_nothing(problem, kept, rules):
        freed = problem.kept(nodes.keys(), rules)
        if freed & products and problem.passes(freed, rules) < problem.passes(kept, rules):
            kept = freed
    return [name for name in nodes if name not in kept]


class Toll:
    """What leaving nodes float costs that could be integers.

    Attributes:
        real: Passes of them all in float.
    """

    def __init__(
        self,
        graph: Graph,
        specs: Mapping[str, OpSpec],
        fused: Mapping[str, str],
        target: Target,
    ) -> None:
        """Take what `not_worth` takes; ``specs`` are the integers that there are.

        For a target with tables of its own integers count as free.
        """
        size = sizes(graph)
        nodes = {node.name or "": node for node in graph.nodes if node.name in specs}
        costs = {name: cost(node, specs[name], size) for name, node in nodes.items()}
        if target.tables:
            costs = {name: Cost(own.real, 0.0) for name, own in costs.items()}
        self._costs = costs
        self._problem = _Problem(nodes, specs, fused, size, target)
        self._all = frozenset(nodes)
        self.real = self._problem.passes((), self._costs)

    def __call__(self, more: Collection[str], floats: Collection[str] = ()) -> float:
        """Passes that ``more`` cost where ``floats`` are float already; below 0 where it is faster so."""
        now, costs = self._problem.passes, self._costs
        before = self._all.difference(floats)
        of = before.intersection(more)
        after = before - of
        for name in self._beside(of):  # `not_worth` would find these not worth it any more
            if name in after and now(after - {name}, costs, [name]) < now(after, costs, [name]):
                after -= {name}
        of = before - after
        return now(after, costs, of) - now(before, costs, of)

    def _beside(self, names: Collection[str]) -> list[str]:
        """The neighbours that are no products."""
        values = _tensors(self._problem.nodes[name] for name in sorted(names))
        near = {
            n.name or "" for v in values for n in (*consumers(v), v.producer()) if n is not None
        }
        specs = self._problem.specs
        return sorted(name for name in near if name in specs and not _is_product(specs[name]))


def _gains_nothing(problem: _Problem, kept: Collection[str], costs: Mapping[str, Cost]) -> bool:
    """Whether the integers are no faster than float, in a model that is more than its calls."""
    real = problem.passes((), costs)
    return real > _CALLS and problem.passes(kept, costs) >= real


@dataclass(frozen=True, eq=False)
class _Problem:
    """What is to be divided."""

    nodes: Mapping[str, Node]
    specs: Mapping[str, OpSpec]
    fused: Mapping[str, str]
    size: Sizes
    target: Target

    def kept(self, free: Collection[str], costs: Mapping[str, Cost]) -> set[str]:
        """The integers of the cheapest division; what is not free is among them."""
        network = _Network()
        for name in sorted(free):
            if self.specs[name].op in VIEWS and not costs[name].real:
                continue
            own = costs[name]
            network.edge(_INTEGERS, name, own.real)
            network.edge(name, _REALS, 0.0 if name in self.fused else own.integer)
            for other in self._ties(name):
                if other in free:
                    network.edge(name, other, math.inf)
        places: dict[str, str | int] = dict.fromkeys(self.nodes, _INTEGERS)
        places.update((name, name) for name in free)
        for value in _tensors(self.nodes.values()):
            _cross(network, value, places, self)
        integers = network.integers()
        return {name for name in self.nodes if name not in free or name in integers}

    def _ties(self, name: str) -> list[str]:
        """Without which a node's integers cost more than is said: what does its work, or wants its layout."""
        if name in self.fused:
            return [self.fused[name]]
        if self.specs[name].op != "MaxPool":
            return []
        readers = (reader.name or "" for reader in consumers(self.nodes[name].outputs[0]))
        return [
            reader for reader in readers if reader in self.nodes and _is_product(self.specs[reader])
        ]

    def passes(
        self, kept: Collection[str], costs: Mapping[str, Cost], of: Collection[str] | None = None
    ) -> float:
        """What a division costs, or that part of it which depends on some nodes."""
        some = self.nodes if of is None else sorted(of)
        after = () if of is None else (name for name, maker in self.fused.items() if maker in of)
        total = 0.0
        for name in dict.fromkeys((*some, *after)):
            own = costs[name]
            if name in self.fused:
                total += 0.0 if (name in kept) == (self.fused[name] in kept) else own.real
            else:
                total += own.integer if name in kept else own.real
        for value in _tensors(self.nodes[name] for name in some):
            maker = value.producer()
            made = maker is not None and maker.name in kept
            read = {reader.name in kept for reader in consumers(value)}
            read |= {False} if value.is_graph_output() else set()
            total += self.size(value) * ((not made and True in read) or (made and False in read))
        return total


def _tensors(nodes: Iterable[Node]) -> list[Value]:
    """The real tensors that the nodes read or write."""
    values = [value for node in nodes for value in (*node.inputs, *node.outputs) if value]
    return [v for v in dict.fromkeys(values) if constant(v) is None and dtype_of(v) == np.float32]


def _cross(
    network: _Network, value: Value, places: Mapping[str, str | int], problem: _Problem
) -> None:
    """What it costs where a tensor is read as what it is not written as."""
    size = problem.size(value)
    readers: set[str | int] = {_REALS} if value.is_graph_output() else set()
    readers |= {places.get(reader.name or "", _REALS) for reader in consumers(value)}
    any_integer, any_real = f"{value.name} as integers", f"{value.name} as reals"
    for reader in readers:
        network.edge(reader, any_integer, math.inf)
        network.edge(any_real, reader, math.inf)
    maker = value.producer()
    name = maker.name or "" if maker is not None else ""
    specs = problem.specs
    if name in specs and specs[name].real is not None and problem.target.real_outputs:
        network.edge(any_integer, any_real, size)
    else:
        network.edge(any_integer, places.get(name, _REALS), size)
        network.edge(places.get(name, _REALS), any_real, size)


def _largest(node: Node, size: Sizes) -> float:
    """The elements of the largest tensor that the node reads or writes."""
    return max(size(value) for value in (*node.inputs, *node.outputs) if value is not None)


def _real_cost(node: Node, size: Sizes) -> float:
    return 0.0 if operator(node) in VIEWS else _REAL_COST * _largest(node, size)


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
