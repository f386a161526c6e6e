"""What does a division of a graph into integers and reals cost, and which is the cheapest?

Its nodes, and every crossing: a quantizer or its reverse, with the transposition that goes with it, passes over the
whole tensor once and is two kernels to run, one more where a float convolution's blocks of channels end or begin.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ptq.core.opspec import OpSpec, Role
from ptq.core.targets import Target
from ptq.model.node import Node, Value, constant_of, consumers_of, dtype_of, operator_of
from ptq.solver.partition.cost_model import (
    CHANNELS_FIRST_POOL,
    KERNEL_OVERHEAD,
    VIEWS,
    KernelCost,
    TensorSizes,
)
from ptq.solver.partition.min_cut import INTEGERS, REALS, MinCut

_REORDER_COST = 0.55
"""Passes that it takes for an element where a float convolution's blocks of channels end or begin."""
_LAYOUT_OPS = frozenset(["Conv", "ConvTranspose", "Gemm", "MatMul"])
"""What makes a layout of its own, also where it cannot be quantized."""


@dataclass(frozen=True, eq=False)
class PartitionProblem:
    """What is to be divided.

    Attributes:
        call: Passes that running a kernel at all takes at a crossing.
    """

    nodes: Mapping[str, Node]
    specs: Mapping[str, OpSpec]
    fused: Mapping[str, str]
    size: TensorSizes
    target: Target
    kernel_overhead: float = KERNEL_OVERHEAD

    def integer_nodes(self, free: Collection[str], costs: Mapping[str, KernelCost]) -> set[str]:
        """The integers of the cheapest division; what is not free is among them."""
        places: dict[str, str | int] = dict.fromkeys(self.nodes, INTEGERS)
        places.update((name, name) for name in free)
        division = MinCut()
        for name in sorted(free):
            if self.specs[name].op in VIEWS and not costs[name].float_cost:
                continue
            own = costs[name]
            if name in self.fused:
                division.add_edge(places[self.fused[name]], name, own.float_cost)
            else:
                division.add_edge(INTEGERS, name, own.float_cost)
                division.add_edge(name, REALS, own.integer_cost)
            for other in self._required_nodes(name):
                if other in free:
                    division.add_edge(name, other, math.inf)
        for value in float_tensors(self.nodes.values()):
            _add_crossing(division, value, places, self)
        integers = division.source_side()
        return {name for name in self.nodes if name not in free or name in integers}

    def _required_nodes(self, name: str) -> list[str]:
        """Without which a node's integers cost more than is said: what does its work, or wants its layout."""
        if name in self.fused:
            return [self.fused[name]]
        if self.specs[name].op != "MaxPool":
            return []
        readers = (reader.name or "" for reader in consumers_of(self.nodes[name].outputs[0]))
        return [
            *(n for n in readers if n in self.nodes and is_product(self.specs[n])),
            *sorted(self._layout_producers(name)),
        ]

    def _layout_producers(self, name: str) -> set[str]:
        """The nodes that hand a layout on to this one, back to those that make it, past those that are float."""
        found: set[str] = set()
        seen, ahead = {name}, [self.nodes[name]]
        while ahead:
            makers = {value.producer() for value in ahead.pop().inputs if value}
            new = [m for m in makers if m is not None and m.name not in seen]
            seen.update(m.name or "" for m in new)
            found.update(m.name or "" for m in new if m.name in self.nodes)
            ahead += [m for m in new if not self._sets_layout(m)]
        return found

    def _sets_layout(self, node: Node) -> bool:
        spec = self.specs.get(node.name or "")
        return operator_of(node) in _LAYOUT_OPS if spec is None else is_product(spec)

    def cost_of(
        self,
        kept: Collection[str],
        costs: Mapping[str, KernelCost],
        of: Collection[str] | None = None,
    ) -> float:
        """What a division costs, or that part of it which depends on some nodes."""
        some = self.nodes if of is None else sorted(of)
        after = () if of is None else (name for name, maker in self.fused.items() if maker in of)
        total = 0.0
        for name in dict.fromkeys((*some, *after)):
            own = costs[name]
            if name in self.fused:
                total += 0.0 if (name in kept) == (self.fused[name] in kept) else own.float_cost
            else:
                total += own.integer_cost if name in kept else own.float_cost
        for value in float_tensors(self.nodes[name] for name in some):
            maker = value.producer()
            made = maker is not None and maker.name in kept
            read = {reader.name in kept for reader in consumers_of(value)}
            read |= {False} if value.is_graph_output() else set()
            if not made and True in read:
                total += self.quantize_cost(value)
            elif made and False in read:
                total += self.dequantize_cost(value)
        return total

    def quantize_cost(self, value: Value) -> float:
        """What it costs where a float tensor is read as integers."""
        maker = value.producer()
        if (
            maker is not None and operator_of(maker) == "MaxPool"
        ):  # the quantizer is moved before it
            pooled = maker.inputs[0] or value
            return self._crossing_cost(pooled, [maker]) + self.size(value) * CHANNELS_FIRST_POOL
        return self._crossing_cost(value, [maker])

    def dequantize_cost(self, value: Value) -> float:
        """What it costs where integers are read as a float tensor."""
        return self._crossing_cost(value, consumers_of(value))

    def _crossing_cost(self, value: Value, beyond: Iterable[Node | None]) -> float:
        floats = (self.nodes.get(self.fused.get(n.name or "", n.name or "")) for n in beyond if n)
        in_blocks = any(operator_of(node) == "Conv" for node in floats if node is not None)
        return self.size(value) * (1 + _REORDER_COST * in_blocks) + self.kernel_overhead * (
            2 + in_blocks
        )


def float_tensors(nodes: Iterable[Node]) -> list[Value]:
    """The real tensors that the nodes read or write."""
    values = [value for node in nodes for value in (*node.inputs, *node.outputs) if value]
    return [
        v for v in dict.fromkeys(values) if constant_of(v) is None and dtype_of(v) == np.float32
    ]


def _add_crossing(
    division: MinCut, value: Value, places: Mapping[str, str | int], problem: PartitionProblem
) -> None:
    """What it costs where a tensor is read as what it is not written as."""
    readers: set[str | int] = {REALS} if value.is_graph_output() else set()
    readers |= {places.get(reader.name or "", REALS) for reader in consumers_of(value)}
    any_integer, any_real = f"{value.name} as integers", f"{value.name} as reals"
    for reader in readers:
        division.add_edge(reader, any_integer, math.inf)
        division.add_edge(any_real, reader, math.inf)
    maker = value.producer()
    name = maker.name or "" if maker is not None else ""
    specs = problem.specs
    if name in specs and specs[name].float_output_form is not None and problem.target.float_outputs:
        division.add_edge(any_integer, any_real, problem.size(value))
    else:
        division.add_edge(any_integer, places.get(name, REALS), problem.quantize_cost(value))
        division.add_edge(places.get(name, REALS), any_real, problem.dequantize_cost(value))


def is_product(spec: OpSpec) -> bool:
    """Whether it multiplies by weights."""
    return spec.can_fuse_activation and Role.WEIGHT in spec.input_roles
