"""The cost of a partition of a graph into integer and float nodes, and the cheapest partition.

The cost is that of the nodes and of every crossing. At a crossing QuantizeLinear or DequantizeLinear and a
Transpose pass over the whole tensor: together one pass for each element and two kernel calls. Where a float
convolution's blocks of channels begin or end, a third kernel reorders them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from ptq.core.ops import LINEAR_OPS
from ptq.core.opspec import OpSpec, Role
from ptq.core.target import Target
from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    Value,
    get_node_name,
    get_operator,
    is_constant,
    is_float32,
    list_consumers,
)
from ptq.solver.partition.cost_model import VIEWS, KernelCost, TensorSizes, find_largest_tensor
from ptq.solver.partition.cost_table import OrtCostTable
from ptq.solver.partition.min_cut import FLOATS, INTEGERS, MinCut
from ptq.solver.partition.silu import find_silus

_CROSSING_KERNELS = 2
"""Kernel calls at a crossing without blocks: the quantizer and the Transpose."""


@dataclass(frozen=True, eq=False)
class PartitionProblem:
    """The nodes to partition.

    Attributes:
        nodes: The nodes that could be quantized, by name.
        specs: Their rows of the operator table.
        fused: Activations whose work a producer does at no cost, with that producer.
        size: The number of elements of each tensor.
        target: The target to quantize for.
        costs: Measured times.
    """

    nodes: Mapping[str, Node]
    specs: Mapping[str, OpSpec]
    fused: Mapping[str, str]
    size: TensorSizes
    target: Target
    costs: OrtCostTable

    @cached_property
    def silus(self) -> Mapping[str, tuple[str, str]]:
        """The Sigmoid nodes that take no time in float if both named nodes, before and behind it, are float too."""
        return find_silus(self.nodes.values())

    def estimate_others(self, graph: Graph) -> float:
        """The passes of the graph's other nodes, which can only be float."""
        return sum(
            self.costs.float_operator * find_largest_tensor(node, self.size)
            + self.costs.kernel_call
            for node in graph.nodes
            if node.name not in self.nodes
        )

    def integer_nodes(self, free: Collection[str], costs: Mapping[str, KernelCost]) -> set[str]:
        """The integer nodes of the cheapest partition.

        Args:
            free: Nodes that may be integer or float. All other nodes are integer.
            costs: The cost of each node.
        """
        if not free:
            return set(self.nodes)
        vertices: dict[str, str | int] = dict.fromkeys(self.nodes, INTEGERS)
        vertices.update((name, name) for name in free)
        cut = MinCut()
        for name in sorted(free):
            if self.specs[name].op in VIEWS and not costs[name].float_cost:
                continue
            own = costs[name]
            if name in self.fused:
                cut.add_edge(vertices[self.fused[name]], name, own.float_cost)
            else:
                silu = self.silus.get(name)
                beside = INTEGERS if silu is None else vertices.get(silu[0], FLOATS)
                cut.add_edge(beside, name, own.float_cost)
                cut.add_edge(name, FLOATS, own.integer_cost)
            for other in self._required_nodes(name):
                if other in free:
                    cut.add_edge(name, other, math.inf)
        for value in list_float_tensors(self.nodes.values()):
            _add_crossing(cut, value, vertices, self)
        integers = cut.source_side()
        return {name for name in self.nodes if name not in free or name in integers}

    def _required_nodes(self, name: str) -> list[str]:
        """The nodes that must be integer for the node's integer cost to hold: they do its work or set its layout."""
        if name in self.fused:
            return [self.fused[name]]
        if self.specs[name].op != "MaxPool":
            return []
        readers = (get_node_name(reader) for reader in list_consumers(self.nodes[name].outputs[0]))
        return [
            *(n for n in readers if n in self.nodes and is_product(self.specs[n])),
            *sorted(self._layout_producers(name)),
        ]

    def _layout_producers(self, name: str) -> set[str]:
        """The nodes from which the layout of this node's input comes, up to those that set it."""
        found: set[str] = set()
        visited, ahead = {name}, [self.nodes[name]]
        while ahead:
            makers = {value.producer() for value in ahead.pop().inputs if value}
            new = [m for m in makers if m is not None and m.name not in visited]
            visited.update(get_node_name(m) for m in new)
            found.update(get_node_name(m) for m in new if m.name in self.nodes)
            ahead += [m for m in new if not self.sets_layout(m)]
        return found

    def sets_layout(self, node: Node) -> bool:
        """Whether the node is a product, which sets the layout of its output, on integers or in float."""
        spec = self.specs.get(get_node_name(node))
        # they set the layout of their output, also where they cannot be quantized
        return get_operator(node) in LINEAR_OPS if spec is None else is_product(spec)

    def cost_of(
        self,
        kept: Collection[str],
        costs: Mapping[str, KernelCost],
        of: Collection[str] | None = None,
    ) -> float:
        """The cost of a partition, in passes.

        Args:
            kept: The integer nodes.
            costs: The cost of each node.
            of: Count only what depends on these nodes; None counts everything.
        """
        some = self.nodes if of is None else sorted(of)
        after = () if of is None else (name for name, maker in self.fused.items() if maker in of)
        total = 0.0
        for name in dict.fromkeys((*some, *after)):
            own = costs[name]
            if name in self.fused:
                total += 0.0 if (name in kept) == (self.fused[name] in kept) else own.float_cost
            elif name in kept:
                total += own.integer_cost
            elif name not in self.silus or not {*self.silus[name]}.isdisjoint(kept):
                total += own.float_cost
        for value in list_float_tensors(self.nodes[name] for name in some):
            maker = value.producer()
            made = maker is not None and maker.name in kept
            read = {reader.name in kept for reader in list_consumers(value)}
            read |= {False} if value.is_graph_output() else set()
            if not made and True in read:
                total += self.quantize_cost(value)
            elif made and False in read:
                total += self.dequantize_cost(value)
        return total

    def quantize_cost(self, value: Value) -> float:
        """The passes where integer nodes read a tensor that is written in float."""
        maker = value.producer()
        # ONNX Runtime moves the quantizer before a MaxPool
        if maker is not None and get_operator(maker) == "MaxPool":
            pooled = maker.inputs[0] or value
            pool = self.size(value) * self.costs.channels_first_pool
            return self._crossing_cost(pooled, [maker]) + pool
        return self._crossing_cost(value, [maker])

    def dequantize_cost(self, value: Value) -> float:
        """The passes where float nodes read a tensor that is written in integers."""
        return self._crossing_cost(value, list_consumers(value))

    def _crossing_cost(self, value: Value, beyond: Iterable[Node | None]) -> float:
        """The passes of a quantizer with the given nodes on its float side."""
        floats = (
            self.nodes.get(self.fused.get(get_node_name(n), get_node_name(n))) for n in beyond if n
        )
        in_blocks = any(get_operator(node) == "Conv" for node in floats if node is not None)
        per_element = 1 + self.costs.block_boundary * in_blocks
        kernels = _CROSSING_KERNELS + in_blocks
        return self.size(value) * per_element + self.costs.kernel_call * kernels


def list_float_tensors(nodes: Iterable[Node]) -> list[Value]:
    """The float32 tensors that the nodes read or write, without constants."""
    values = dict.fromkeys(value for node in nodes for value in (*node.inputs, *node.outputs))
    return [v for v in values if v is not None and is_float32(v) and not is_constant(v)]


def _add_crossing(
    cut: MinCut, value: Value, vertices: Mapping[str, str | int], problem: PartitionProblem
) -> None:
    """Add the cost where a tensor is written on one side and read on the other."""
    readers: set[str | int] = {FLOATS} if value.is_graph_output() else set()
    readers |= {vertices.get(get_node_name(reader), FLOATS) for reader in list_consumers(value)}
    any_integer, any_float = f"{value.name} as integers", f"{value.name} as floats"
    for reader in readers:
        cut.add_edge(reader, any_integer, math.inf)
        cut.add_edge(any_float, reader, math.inf)
    maker = value.producer()
    name = get_node_name(maker) if maker is not None else ""
    writer = vertices.get(name, FLOATS)
    specs = problem.specs
    if name in specs and specs[name].float_output_form is not None and problem.target.float_outputs:
        cut.add_edge(any_integer, any_float, problem.size(value))
    else:
        cut.add_edge(any_integer, writer, problem.quantize_cost(value))
        cut.add_edge(writer, any_float, problem.dequantize_cost(value))


def is_product(spec: OpSpec) -> bool:
    """Whether the operator is a product: it multiplies by weights, as Conv, Gemm and MatMul do."""
    return spec.can_fuse_activation and Role.WEIGHT in spec.input_roles
