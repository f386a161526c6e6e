"""Which nodes are worth integers, when it is up to speed alone?

Products (Conv, Gemm, MatMul) are. What stands between them, sums, activations, pools, movements, is worth
integers where its neighbours are: every crossing costs a quantizer over the whole tensor. The cheapest division
of a graph is a minimum cut; of two equally cheap ones the one with more integers is taken.
A model without products that can be all integers becomes so.

Where ONNX Runtime's integers for all products would be no faster than float, as of small networks of few channels,
or by far slower than for some, as of groups of few channels, products are weighed like the others, and those stay
float that are slower on integers and gain their neighbours nothing.

Costs are counted in passes over the elements of a tensor: a quantizer is one, an operator one and on four bytes
a value one and a half, a movement of single bytes a quarter, an operator that runs in float between quantizers
three, another view of the same bytes nothing. A product whose kernel hands out real numbers costs nothing to
read in float.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ptq.graph import Graph
from ptq.nodes import Node, Value, constant, consumers, dtype_of, operator
from ptq.opspec import PASSES, TABLE, OpSpec, Role
from ptq.scope.costs import CHANNELS_FIRST, VIEWS, Cost, Sizes, cost, sizes
from ptq.scope.cut import INTEGERS, REALS, Division
from ptq.targets import Target

_REAL_COST = 1.5
_CALLS = 250_000
"""Passes, 50 µs: below them calls and copies take longer than what is computed."""
_REORDERED = 2.5
"""Passes that it takes for an element where a float convolution's blocks of channels end or begin."""
_DEARER = tuple(1.25**n for n in range(12))
"""How many times dearer products in float are taken to be, until some are worth integers."""
_MUCH_LESS = 2 / 3
"""What must be left of the passes for products to stay float where integers gain as it is: costs are estimates."""


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
    real, mixed = (problem.passes(division, rules) for division in ((), kept))
    most = mixed if mixed >= real else mixed * _MUCH_LESS
    least = sum(min(own.real, own.integer) for name, own in rules.items() if name not in fused)
    if target.real_outputs and real > _CALLS and least < most:
        freed = _with_some(products, problem, rules)
        if problem.passes(freed, rules) < most:
            kept = freed
    return [name for name in nodes if name not in kept]


def _with_some(products: Collection[str], problem: _Problem, costs: Mapping[str, Cost]) -> set[str]:
    """The cheapest division that leaves some products in integers, as who quantizes wants."""
    for dearer in _DEARER:
        favoured = {
            name: Cost(own.real * dearer, own.integer) if name in products else own
            for name, own in costs.items()
        }
        found = problem.kept(problem.nodes.keys(), favoured)
        if not found.isdisjoint(products):
            return found
    return set(problem.nodes)


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
        places: dict[str, str | int] = dict.fromkeys(self.nodes, INTEGERS)
        places.update((name, name) for name in free)
        division = Division()
        for name in sorted(free):
            if self.specs[name].op in VIEWS and not costs[name].real:
                continue
            own = costs[name]
            if name in self.fused:
                division.edge(places[self.fused[name]], name, own.real)
            else:
                division.edge(INTEGERS, name, own.real)
                division.edge(name, REALS, own.integer)
            for other in self._ties(name):
                if other in free:
                    division.edge(name, other, math.inf)
        for value in _tensors(self.nodes.values()):
            _cross(division, value, places, self)
        integers = division.integers()
        return {name for name in self.nodes if name not in free or name in integers}

    def _ties(self, name: str) -> list[str]:
        """Without which a node's integers cost more than is said: what does its work, or wants its layout."""
        if name in self.fused:
            return [self.fused[name]]
        if self.specs[name].op != "MaxPool":
            return []
        readers = (reader.name or "" for reader in consumers(self.nodes[name].outputs[0]))
        return [
            *(n for n in readers if n in self.nodes and _is_product(self.specs[n])),
            *sorted(self._up_to_products(name)),
        ]

    def _up_to_products(self, name: str) -> set[str]:
        """The nodes that hand a layout on to this one, back to those that make it."""
        found: set[str] = set()
        ahead = [name]
        while ahead:
            makers = {value.producer() for value in self.nodes[ahead.pop()].inputs if value}
            new = {maker.name or "" for maker in makers if maker} & self.nodes.keys() - found
            found |= new
            ahead += [before for before in new if not _is_product(self.specs[before])]
        return found

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
            if not made and True in read:
                total += self.quantizing(value)
            elif made and False in read:
                total += self.dequantizing(value)
        return total

    def quantizing(self, value: Value) -> float:
        """What it costs where a float tensor is read as integers."""
        maker = value.producer()
        if maker is not None and operator(maker) == "MaxPool":  # the quantizer is moved before it
            return self.size(maker.inputs[0]) * CHANNELS_FIRST
        return self._crossing(value, [maker])

    def dequantizing(self, value: Value) -> float:
        """What it costs where integers are read as a float tensor."""
        return self._crossing(value, consumers(value))

    def _crossing(self, value: Value, beyond: Iterable[Node | None]) -> float:
        floats = (self.nodes.get(self.fused.get(n.name or "", n.name or "")) for n in beyond if n)
        in_blocks = any(operator(node) == "Conv" for node in floats if node is not None)
        return self.size(value) * (1 + _REORDERED * in_blocks)


def _tensors(nodes: Iterable[Node]) -> list[Value]:
    """The real tensors that the nodes read or write."""
    values = [value for node in nodes for value in (*node.inputs, *node.outputs) if value]
    return [v for v in dict.fromkeys(values) if constant(v) is None and dtype_of(v) == np.float32]


def _cross(
    division: Division, value: Value, places: Mapping[str, str | int], problem: _Problem
) -> None:
    """What it costs where a tensor is read as what it is not written as."""
    readers: set[str | int] = {REALS} if value.is_graph_output() else set()
    readers |= {places.get(reader.name or "", REALS) for reader in consumers(value)}
    any_integer, any_real = f"{value.name} as integers", f"{value.name} as reals"
    for reader in readers:
        division.edge(reader, any_integer, math.inf)
        division.edge(any_real, reader, math.inf)
    maker = value.producer()
    name = maker.name or "" if maker is not None else ""
    specs = problem.specs
    if name in specs and specs[name].real is not None and problem.target.real_outputs:
        division.edge(any_integer, any_real, problem.size(value))
    else:
        division.edge(any_integer, places.get(name, REALS), problem.quantizing(value))
        division.edge(places.get(name, REALS), any_real, problem.dequantizing(value))


def _largest(node: Node, size: Sizes) -> float:
    """The elements of the largest tensor that the node reads or writes."""
    return max(size(value) for value in (*node.inputs, *node.outputs) if value is not None)


def _real_cost(node: Node, size: Sizes) -> float:
    return 0.0 if operator(node) in VIEWS else _REAL_COST * _largest(node, size)


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
