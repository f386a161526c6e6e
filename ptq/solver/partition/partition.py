"""The nodes that are faster in float than on integers, by a minimum cut of the graph.

Products (Conv, Gemm, MatMul) become integers. All else, such as sums, activations, pools and data movement, becomes
integers where that is cheaper: every crossing between float and integers costs a quantizer over the whole tensor.
The cheapest partition of a graph is a minimum cut; of two equally cheap ones the one with more integers is taken.
A model without products becomes integers if it can as a whole.

On ONNX Runtime some products are faster in float: first layers of few channels, groups of few, depthwise ones. There
products take part in the cut. Those stay float that are slower on integers and gain their neighbours nothing. Where
that does not make the whole model clearly faster, only first layers do (`first_layers`). Arithmetic of inputs with
constants stays float (`input_arithmetic`).

Costs are counted in passes over the elements of a tensor (`cost_table`). For each element a quantizer costs one pass.
An operator costs one on integers and one and a half in float, which has four bytes a value. Data movement of single
bytes costs a quarter, and an operator that runs in float between quantizers three. A view of the same bytes costs
nothing. To read a product in float costs nothing where its kernel returns float.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace

from ptq.core.opspec import OpSpec
from ptq.core.target import Target
from ptq.core.union_find import UnionFind
from ptq.model.border_casts import find_casts_to_outputs, find_input_behind_cast
from ptq.model.graph import Graph
from ptq.model.node import Node, Value, get_node_name, get_shape, is_constant, list_consumers
from ptq.solver.partition.cost_model import GraphCosts, KernelCost, estimate_sizes, price_kernel
from ptq.solver.partition.cost_table import ORT_1_31_AVX512_VNNI, OrtCostTable
from ptq.solver.partition.first_layers import leave_first_layers_float
from ptq.solver.partition.input_arithmetic import find_input_arithmetic
from ptq.solver.partition.partition_cost import PartitionProblem, is_product, list_float_tensors
from ptq.solver.partition.shipped_tables import get_cost_table

_PRODUCT_WEIGHTS = tuple(1.25**n for n in range(12))
"""Factors on the float time of products, tried in turn until some products become integers."""
_REQUIRED_RATIO = 0.92
"""The share of the time that may be left for products to stay float where integers gain: costs are estimates."""
_REQUIRED_RATIO_GUESSED = 2 / 3
"""The same where costs are guesses: sizes vary, or float tensors do not stay in the cache."""


def find_nodes_faster_in_float(
    graph: Graph,
    specs: Mapping[str, OpSpec],
    fused: Mapping[str, str],
    target: Target,
    costs: GraphCosts | None,
) -> list[str]:
    """The nodes that could be quantized but had better stay float, by name.

    Args:
        graph: The prepared graph, shapes inferred.
        specs: Rows of the operator table for the nodes that could be quantized, by node name.
        fused: Activations whose work a producer does at no cost, with that producer.
        target: The target.
        costs: The costs of the nodes. None keeps all integers but data movement that no integers surround.
    """
    nodes = {get_node_name(node): node for node in graph.nodes if node.name in specs}
    products = {name for name in nodes if is_product(specs[name])}
    border = _list_border(nodes) if target.integer_border else set[str]()
    if costs is None or not products:
        idle = _list_lone_data_movement(nodes, specs)
        return [] if len(idle) == len(graph.nodes) else idle
    if not target.integer_border:
        on_inputs = find_input_arithmetic(graph)
        nodes = {name: node for name, node in nodes.items() if name not in on_inputs}
        fused = {name: maker for name, maker in fused.items() if maker in nodes}
    problem = PartitionProblem(nodes, specs, fused, costs.size, target, costs.table)
    uniform = costs.estimate_uniform(nodes, specs)
    integers = _partition_around_products(problem, products | border, uniform)
    if target.float_outputs:
        kernels = costs.estimate_kernels(nodes, specs)
        integers = _partition_all(graph, problem, products, border, kernels, integers)
    inside = {name: node for name, node in nodes.items() if name in integers}
    integers = integers.difference(_list_lone_data_movement(inside, specs)) | border
    return [name for name in specs if name not in integers]


def _list_border(nodes: Mapping[str, Node]) -> set[str]:
    """The nodes that read an input of the model or write an output, Casts of its type between them or not."""
    return {
        name
        for name, node in nodes.items()
        if any(
            value is not None and (value.is_graph_input() or find_input_behind_cast(value))
            for value in node.inputs
        )
        or any(value.is_graph_output() or find_casts_to_outputs(value) for value in node.outputs)
    }


def _partition_around_products(
    problem: PartitionProblem, kept: Collection[str], costs: Mapping[str, KernelCost]
) -> set[str]:
    """The integer nodes of the cheapest partition that has the given ones on integers."""
    free = problem.nodes.keys() - kept
    return replace(problem, costs=problem.costs.without_kernel_calls()).integer_nodes(free, costs)


def _partition_all(
    graph: Graph,
    problem: PartitionProblem,
    products: Collection[str],
    border: Collection[str],
    costs: Mapping[str, KernelCost],
    integers: set[str],
) -> set[str]:
    """The integer nodes of the cheapest partition, products included, if it gains enough; else those given.

    Nodes of ``border`` are integers in each.
    """
    all_float, given = (problem.cost_of(kept, costs) for kept in ((), integers))
    others = problem.estimate_others(graph)
    if all_float <= problem.costs.small_model:
        return integers
    limit = (given + others) * _get_required_ratio(problem, given < all_float) - others
    lower_bound = sum(
        min(0.0 if name in problem.silus else own.float_cost, own.integer_cost)
        for name, own in costs.items()
        if name not in problem.fused
    )
    if lower_bound < limit:
        found = _partition_with_some_products(problem, products, border, costs)
        if problem.cost_of(found, costs) < limit:
            return found
    return integers if border else leave_first_layers_float(problem, costs, integers, others)


def _get_required_ratio(problem: PartitionProblem, integers_gain: bool) -> float:
    """The share of the time of all-integer products below which products stay float."""
    if not integers_gain:
        return 1.0
    fits = _can_fit_cache(problem.nodes.values(), problem.costs)
    return _REQUIRED_RATIO if fits else _REQUIRED_RATIO_GUESSED


def _partition_with_some_products(
    problem: PartitionProblem,
    products: Collection[str],
    border: Collection[str],
    costs: Mapping[str, KernelCost],
) -> set[str]:
    """The integer nodes of the cheapest partition with at least one product, which a quantization should have."""
    free = problem.nodes.keys() - border
    for weight in _PRODUCT_WEIGHTS:
        favoured = {
            name: KernelCost(own.float_cost * weight, own.integer_cost) if name in products else own
            for name, own in costs.items()
        }
        found = problem.integer_nodes(free, favoured)
        if not found.isdisjoint(products):
            return found
    return set(problem.nodes)


class FloatTimeModel:
    """The time that it costs to keep nodes float that could be integers.

    Attributes:
        all_float_time: Passes of all these nodes in float.
    """

    def __init__(
        self,
        graph: Graph,
        specs: Mapping[str, OpSpec],
        fused: Mapping[str, str],
        target: Target,
    ) -> None:
        """Estimate all nodes that could be integers.

        The arguments are those of `find_nodes_faster_in_float`, with rows of the integer nodes only. A target without
        a cost table has the float times of ONNX Runtime, and its integers cost nothing. Kernel calls are not counted:
        they would make all of a very small network faster in float.
        """
        table = get_cost_table(target)
        measured = (table or ORT_1_31_AVX512_VNNI).without_kernel_calls()
        size = estimate_sizes(graph)
        nodes = {get_node_name(node): node for node in graph.nodes if node.name in specs}
        costs = {
            name: price_kernel(node, specs[name], size, measured) for name, node in nodes.items()
        }
        if table is None:
            costs = {name: KernelCost(own.float_cost, 0.0) for name, own in costs.items()}
        self._costs = costs
        self._problem = PartitionProblem(nodes, specs, fused, size, target, measured)
        self._all = frozenset(nodes)
        self._near: dict[frozenset[str], frozenset[str]] = {}
        self._known: dict[tuple[frozenset[str], frozenset[str]], float] = {}
        self.all_float_time = self._problem.cost_of((), self._costs)

    def __call__(self, more: Collection[str], floats: Collection[str] = ()) -> float:
        """The passes that ``more`` float nodes cost beyond the float nodes ``floats``; negative if they save time."""
        nodes = frozenset(more)
        if nodes not in self._near:
            self._near[nodes] = self._surroundings(nodes)
        # float nodes farther away change nothing
        key = (nodes, self._near[nodes].intersection(floats))
        if key not in self._known:
            self._known[key] = self._passes(*key)
        return self._known[key]

    def _surroundings(self, names: frozenset[str]) -> frozenset[str]:
        """The nodes on which the time of some nodes can depend.

        Neighbours can become float with them. The time of each depends on what reads and writes its tensors, on
        the activation that is fused into it, and on the node that it is fused into.
        """
        fused, nodes = self._problem.fused, self._problem.nodes
        for _ in range(2):
            with_fused = names | {a for a, maker in fused.items() if maker in names}
            with_fused |= {fused[name] for name in with_fused if name in fused}
            values = list_float_tensors(nodes[name] for name in sorted(with_fused) if name in nodes)
            near = (n for v in values for n in (*list_consumers(v), v.producer()) if n is not None)
            names = with_fused.union(get_node_name(n) for n in near)
        return names

    def _passes(self, more: frozenset[str], floats: frozenset[str]) -> float:
        cost_of, costs = self._problem.cost_of, self._costs
        before = self._all.difference(floats)
        changed = before.intersection(more)
        after = before - changed
        # `find_nodes_faster_in_float` would no longer keep these neighbours on integers
        for name in self._neighbours(changed):
            if name in after and (
                cost_of(after - {name}, costs, [name]) < cost_of(after, costs, [name])
            ):
                after -= {name}
        changed = before - after
        return cost_of(after, costs, changed) - cost_of(before, costs, changed)

    def _neighbours(self, names: Collection[str]) -> list[str]:
        values = list_float_tensors(self._problem.nodes[name] for name in sorted(names))
        near = {
            get_node_name(n)
            for v in values
            for n in (*list_consumers(v), v.producer())
            if n is not None
        }
        specs = self._problem.specs
        return sorted(name for name in near if name in specs and not is_product(specs[name]))


def _can_fit_cache(nodes: Collection[Node], costs: OrtCostTable) -> bool:
    """Whether every float tensor that the nodes read or write has a fixed size that fits the cache."""
    shapes = [get_shape(value) for value in list_float_tensors(nodes)]
    return all(
        shape is not None
        and None not in shape[1:]
        and math.prod(side or 1 for side in shape) <= costs.cached_elements
        for shape in shapes
    )


def _list_lone_data_movement(nodes: Mapping[str, Node], specs: Mapping[str, OpSpec]) -> list[str]:
    """The nodes of connected components that only move data."""
    return [
        name
        for component in _list_connected_components(nodes)
        if all(specs[name].follows_neighbours for name in component)
        for name in component
    ]


def _list_connected_components(nodes: Mapping[str, Node]) -> list[list[str]]:
    """The nodes by connected component: a tensor connects its writer and its readers, also without the writer."""
    components, first = UnionFind(nodes), dict[Value, str]()
    for name, node in nodes.items():
        for value in (*node.outputs, *node.inputs):
            if value is not None and not is_constant(value):
                components.union(first.setdefault(value, name), name)
    return components.list_groups()
