"""Which nodes will be quantized for a target, which stay float and why; known before any data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ptq.core.ops import OPS
from ptq.core.opspec import OpSpec, OutputRule, Role
from ptq.core.targets import Target
from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    Value,
    attributes_of,
    constant_of,
    consumers_of,
    dtype_of,
    infinite_attribute,
    name_of,
    operator_of,
    shape_of,
    spec_name,
)
from ptq.model.qdq_units import returns_float
from ptq.solver.partition.kernel_limits import unsupported_reason
from ptq.solver.partition.normalization_pattern import normalization_nodes
from ptq.solver.partition.partition import nodes_faster_in_float

FLOAT32 = np.dtype(np.float32)
_FLOAT_NEIGHBOURS = "its neighbours compute in float: integers would cost more than they save"


@dataclass(frozen=True, eq=False)
class Operand:
    """One input of a node that will be quantized, in the role it has there."""

    position: int
    value: Value
    role: Role


@dataclass(frozen=True, eq=False)
class QuantizedNode:
    """A node that will be quantized."""

    node: Node
    spec: OpSpec
    operands: tuple[Operand, ...]

    def inputs_with_role(self, role: Role) -> list[Value]:
        """The inputs in that role."""
        return [o.value for o in self.operands if o.role is role]


@dataclass(frozen=True, eq=False)
class PrecisionAssignment:
    """The fate of every node of the main graph.

    Attributes:
        integers: Nodes that will be quantized, by name, in graph order.
        floats: The others, with the reason.
        fused: Activation nodes whose work the node before them may do in its requantization.
        real: Outputs of quantized nodes that stay real: their kernels hand them out so, and no integer node
            reads them.
    """

    quantized_nodes: Mapping[str, QuantizedNode]
    float_nodes: Mapping[str, str]
    fused_activations: Mapping[str, str]
    float_outputs: frozenset[str] = frozenset()


def assign_precision(
    graph: Graph,
    target: Target,
    skip: Mapping[str, str] | None = None,
    refused: Mapping[str, str] | None = None,
) -> PrecisionAssignment:
    """Decide for every node.

    Args:
        graph: A prepared graph, shapes inferred.
        target: What the nodes shall run on.
        skip: Names of nodes, or operators, that shall stay float, with the reason.
        refused: Tensors that cannot be quantized, with the reason.
    """
    integers: dict[str, QuantizedNode] = {}
    floats: dict[str, str] = {}
    for node in graph.nodes:
        assert node.name
        verdict = _assign_node(node, target, skip or {}, refused or {})
        if isinstance(verdict, str):
            floats[node.name] = verdict
        else:
            integers[node.name] = verdict
    if target.has_lookup_tables:
        for name, before in _activations_after_float(integers, floats):
            del integers[name]
            floats[name] = f"follows {before}, which stays float"
    if not target.follows_litert_spec:
        pieces = normalization_nodes(graph)
        for name in [name for name in integers if name in pieces]:
            del integers[name]
            floats[name] = "part of a normalization, whose moments 8 bits do not hold"
        specs = {name: integer.spec for name, integer in integers.items()}
        for name in nodes_faster_in_float(graph, specs, dict(_fused_activations(integers)), target):
            alone = Role.WEIGHT in integers.pop(name).spec.input_roles
            floats[name] = (
                f"{target.source} computes it faster in float" if alone else _FLOAT_NEIGHBOURS
            )
    real = frozenset(_unread_float_outputs(integers)) if target.float_outputs else frozenset[str]()
    return PrecisionAssignment(integers, floats, dict(_fused_activations(integers)), real)


def _assign_node(
    node: Node, target: Target, skip: Mapping[str, str], refused: Mapping[str, str]
) -> QuantizedNode | str:
    op = operator_of(node)
    for key in (node.name or "", op):
        if key in skip:
            return skip[key]
    spec = OPS.get(spec_name(node))
    if spec is None:
        return f"ptq has no row for {spec_name(node)}"
    if spec.op in target.float_is_faster:
        return f"{target.source} computes {spec.op} faster in float"
    if not target.can_quantize(spec):
        return f"{target.source} has no integer kernel for {spec.op}"
    if infinite := infinite_attribute(node):
        return infinite
    operands = []
    for position, value in enumerate(node.inputs):
        if value is None:
            continue
        role = _input_role(spec, position, value)
        problem = _input_problem(node, value, role, refused)
        if problem:
            return problem
        operands.append(Operand(position, value, role))
    if not any(o.role is Role.ACTIVATION and constant_of(o.value) is None for o in operands):
        return "reads no activation"
    for name in map(name_of, node.outputs if spec.output_rule is not OutputRule.NONE else ()):
        if name in refused:
            return refused[name]
    return unsupported_reason(node, spec, target) or QuantizedNode(node, spec, tuple(operands))


def _input_role(spec: OpSpec, position: int, value: Value) -> Role:
    role = spec.role_of(position)
    if role is Role.WEIGHT and spec.two_activations and constant_of(value) is None:
        return Role.ACTIVATION
    return role


def _input_problem(node: Node, value: Value, role: Role, refused: Mapping[str, str]) -> str | None:
    if role is Role.KEEP:
        return None
    name = name_of(value)
    if name in refused:
        return refused[name]
    if dtype_of(value) != FLOAT32:
        return f"{name} is {dtype_of(value)}, not float32"
    array = constant_of(value)
    if role is Role.ACTIVATION and array is None:
        return f"{role.value} {name} is empty" if _is_always_empty(node, value) else None
    if array is None:
        return f"{role.value} {name} is not constant"
    if array.size == 0:
        return f"{role.value} {name} is empty"
    if np.isnan(array).any() or (role is not Role.VALUE and np.isinf(array).any()):
        return f"{role.value} {name} holds NaN or Inf"
    if role is Role.BIAS and not _has_one_per_channel(array.shape, _output_channels(node)):
        return f"bias {name} of shape {array.shape} is not one value for each of {_output_channels(node)} channels"
    return None


def _is_always_empty(node: Node, value: Value) -> bool:
    """Whether nothing is ever in the tensor; what is joined to others, such as a cache at first, may be empty."""
    return node.op_type != "Concat" and 0 in (shape_of(value) or ())


def _has_one_per_channel(shape: tuple[int, ...], channels: int) -> bool:
    """Whether the last axis counts the channels and all others are 1."""
    return shape[-1:] == (channels,) and math.prod(shape) == channels


def _output_channels(node: Node) -> int:
    weight = constant_of(node.inputs[1])
    if weight is None:
        return -1
    attrs = attributes_of(node)
    if node.op_type == "ConvTranspose":
        return int(weight.shape[1]) * int(attrs.get("group", 1))
    if node.op_type == "Gemm":
        return int(weight.shape[0 if attrs.get("transB") else 1])
    return int(weight.shape[0])


def _activations_after_float(
    integers: Mapping[str, QuantizedNode], floats: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Activations whose producer stays float: to quantize what is between would cost and gain nothing."""
    left = []
    for name, integer in integers.items():
        before = integer.inputs_with_role(Role.ACTIVATION)[0]
        producer = before.producer()
        if producer is None or not integer.spec.is_activation or producer.name not in floats:
            continue
        spec = OPS.get(spec_name(producer))
        if spec is not None and spec.can_fuse_activation and consumers_of(before) == [integer.node]:
            left.append((name, producer.name or ""))
    return left


def _unread_float_outputs(integers: Mapping[str, QuantizedNode]) -> Iterator[str]:
    """Outputs of kernels that hand out real numbers, read by no node that will be quantized."""
    for integer in integers.values():
        if returns_float(integer.node, integer.spec):
            value = integer.node.outputs[0]
            if not any(reader.name in integers for reader in consumers_of(value)):
                yield name_of(value)


def _fused_activations(integers: Mapping[str, QuantizedNode]) -> Iterator[tuple[str, str]]:
    for name, integer in integers.items():
        if not integer.spec.is_activation:
            continue
        before = integer.node.inputs[0]
        assert before is not None
        producer = before.producer()
        writer = integers.get(producer.name or "") if producer is not None else None
        if (
            writer is not None
            and writer.spec.can_fuse_activation
            and consumers_of(before) == [integer.node]
            and not before.is_graph_output()
        ):
            yield name, writer.node.name or ""
