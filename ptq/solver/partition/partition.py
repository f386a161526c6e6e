"""Which nodes are worth integers, when it is up to speed alone?

Products (Conv, Gemm, MatMul) are. What stands between them, sums, activations, pools, movements, is worth
integers where its neighbours are: every crossing costs a quantizer over the whole tensor. The cheapest division
of a graph is a minimum cut; of two equally cheap ones the one with more integers is taken.
A model without products that can be all integers becomes so.

Where ONNX Runtime is faster with some of the products in float, as first layers of few channels, groups of few, or
depthwise ones, products are weighed like the others, and those stay float that are slower on integers and gain their
neighbours nothing.

Costs are counted in passes over the elements of a tensor: a quantizer is one, an operator one and on four bytes
a value one and a half, a movement of single bytes a quarter, an operator that runs in float between quantizers
three, another view of the same bytes nothing. A product whose kernel hands out real numbers costs nothing to
read in float.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace

from ptq.core.opspec import AS_LOOKUP_TABLE, RUNS_ON_INTEGERS, OpSpec
from ptq.core.targets import Target
from ptq.model.graph import Graph
from ptq.model.node import Node, consumers_of, operator_of, shape_of
from ptq.solver.partition.cost_model import (
    KERNEL_OVERHEAD,
    VIEWS,
    KernelCost,
    TensorSizes,
    estimate_sizes,
    kernel_cost,
)
from ptq.solver.partition.partition_cost import PartitionProblem, float_tensors, is_product

_FLOAT_COST = 1.5
_SMALL_MODEL = 250_000
"""Passes, 50 µs: below them calls and copies take longer than what is computed."""
_FLOAT_COST_FACTORS = tuple(1.25**n for n in range(12))
"""How many times dearer products in float are taken to be, until some are worth integers."""
_REQUIRED_RATIO = 0.92
"""What must be left of the passes for products to stay float where integers gain as it is: costs are estimates."""
_REQUIRED_RATIO_GUESSED = 2 / 3
"""The same where costs are guesses: sizes vary, or float tensors do not stay in a cache."""
_CACHED_ELEMENTS = 2**19
"""Elements of a float tensor, 2 MB."""


def nodes_faster_in_float(
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
    products = {name for name in nodes if is_product(specs[name])}
    if target.has_lookup_tables or not products:
        idle = [
            n
            for c in _connected_components(nodes)
            if all(specs[n].follows_neighbours for n in c)
            for n in c
        ]
        return [] if len(idle) == len(graph.nodes) else idle
    size = estimate_sizes(graph)
    rules = {n: kernel_cost(node, specs[n], size) for n, node in nodes.items()}
    plain = {
        n: KernelCost(
            _float_cost(node, size), _integer_cost(specs[n]) * _largest_tensor(node, size)
        )
        for n, node in nodes.items()
    }
    problem = PartitionProblem(nodes, specs, fused, size, target)
    kept = replace(problem, kernel_overhead=0.0).integer_nodes(nodes.keys() - products, plain)
    real, mixed = (problem.cost_of(division, rules) for division in ((), kept))
    rest = sum(
        _FLOAT_COST * _largest_tensor(n, size) + KERNEL_OVERHEAD
        for n in graph.nodes
        if n.name not in nodes
    )
    less = (
        1.0
        if mixed >= real
        else _REQUIRED_RATIO
        if _fits_cache(nodes.values())
        else _REQUIRED_RATIO_GUESSED
    )
    most = (mixed + rest) * less - rest
    least = sum(
        min(own.float_cost, own.integer_cost) for name, own in rules.items() if name not in fused
    )
    if target.float_outputs and real > _SMALL_MODEL and least < most:
        freed = _partition_with_products(products, problem, rules)
        if problem.cost_of(freed, rules) < most:
            kept = freed
    return [name for name in nodes if name not in kept]


def _partition_with_products(
    products: Collection[str], problem: PartitionProblem, costs: Mapping[str, KernelCost]
) -> set[str]:
    """The cheapest division that leaves some products in integers, as who quantizes wants."""
    for dearer in _FLOAT_COST_FACTORS:
        favoured = {
            name: KernelCost(own.float_cost * dearer, own.integer_cost) if name in products else own
            for name, own in costs.items()
        }
        found = problem.integer_nodes(problem.nodes.keys(), favoured)
        if not found.isdisjoint(products):
            return found
    return set(problem.nodes)


class FloatTimeModel:
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

        For a target with tables of its own integers count as free. Running kernels at all is not counted, as it
        would be for a network so small that all of it had better be float.
        """
        size = estimate_sizes(graph)
        nodes = {node.name or "": node for node in graph.nodes if node.name in specs}
        costs = {name: kernel_cost(node, specs[name], size, 0.0) for name, node in nodes.items()}
        if target.has_lookup_tables:
            costs = {name: KernelCost(own.float_cost, 0.0) for name, own in costs.items()}
        self._costs = costs
        self._problem = PartitionProblem(nodes, specs, fused, size, target, 0.0)
        self._all = frozenset(nodes)
        self.all_float_time = self._problem.cost_of((), self._costs)

    def __call__(self, more: Collection[str], floats: Collection[str] = ()) -> float:
        """Passes that ``more`` cost where ``floats`` are float already; below 0 where it is faster so."""
        now, costs = self._problem.cost_of, self._costs
        before = self._all.difference(floats)
        of = before.intersection(more)
        after = before - of
        for name in self._neighbours(of):  # `not_worth` would find these not worth it any more
            if name in after and now(after - {name}, costs, [name]) < now(after, costs, [name]):
                after -= {name}
        of = before - after
        return now(after, costs, of) - now(before, costs, of)

    def _neighbours(self, names: Collection[str]) -> list[str]:
        """The neighbours that are no products."""
        values = float_tensors(self._problem.nodes[name] for name in sorted(names))
        near = {
            n.name or "" for v in values for n in (*consumers_of(v), v.producer()) if n is not None
        }
        specs = self._problem.specs
        return sorted(name for name in near if name in specs and not is_product(specs[name]))


def _fits_cache(nodes: Collection[Node]) -> bool:
    """Whether every real tensor that the nodes read or write is known to be small."""
    shapes = [shape_of(value) for value in float_tensors(nodes)]
    return all(
        shape is not None
        and None not in shape[1:]
        and math.prod(side or 1 for side in shape) <= _CACHED_ELEMENTS
        for shape in shapes
    )


def _largest_tensor(node: Node, size: TensorSizes) -> float:
    """The elements of the largest tensor that the node reads or writes."""
    return max(size(value) for value in (*node.inputs, *node.outputs) if value is not None)


def _float_cost(node: Node, size: TensorSizes) -> float:
    return 0.0 if operator_of(node) in VIEWS else _FLOAT_COST * _largest_tensor(node, size)


def _integer_cost(spec: OpSpec) -> float:
    return (
        0.25
        if spec.qlinear is RUNS_ON_INTEGERS
        else 3.0
        if spec.qlinear is AS_LOOKUP_TABLE
        else 1.0
    )


def _connected_components(nodes: Mapping[str, Node]) -> list[list[str]]:
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
