"""The precision of every node for a target: quantized, or float with the reason. It needs no data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ptq.core.ops import OPS
from ptq.core.opspec import OpSpec, OutputRule, Role
from ptq.core.target import Target
from ptq.core.types import FLOAT32
from ptq.model.finite_constants import has_non_finite
from ptq.model.graph import Graph
from ptq.model.layer_weights import output_channel_count
from ptq.model.node import (
    Node,
    Value,
    constant_shape,
    consumers_of,
    dtype_of,
    infinite_attribute,
    is_constant,
    name_of,
    operator_of,
    shape_of,
    spec_name,
)
from ptq.model.qdq_units import returns_float
from ptq.solver.partition.float_layers import layers_faster_in_float
from ptq.solver.partition.kernel_limits import unsupported_reason
from ptq.solver.partition.normalization_pattern import normalization_nodes
from ptq.solver.partition.partition import nodes_faster_in_float
from ptq.solver.partition.residual_sums import inputs_added_by_kernels
from ptq.solver.partition.shipped_tables import get_cost_table

_FLOAT_NEIGHBOURS = "neighbours are float; quantize/dequantize would cost more than int8 saves"


@dataclass(frozen=True, eq=False)
class Operand:
    """One input of a node that will be quantized, with its role."""

    position: int
    value: Value
    role: Role


@dataclass(frozen=True, eq=False)
class QuantizedNode:
    """A node that will be quantized, with its row of the operator table and its inputs."""

    node: Node
    spec: OpSpec
    operands: tuple[Operand, ...]

    def inputs_with_role(self, role: Role) -> list[Value]:
        """The inputs with the given role."""
        return [o.value for o in self.operands if o.role is role]


@dataclass(frozen=True, eq=False)
class PrecisionAssignment:
    """The precision of every node of the main graph.

    Attributes:
        quantized_nodes: Nodes that will be quantized, by name, in graph order.
        float_nodes: All other nodes, with the reason.
        fused_activations: Activation nodes whose work the requantization of their producer may do, with that
            producer.
        float_outputs: Outputs of quantized nodes that stay float: their kernels return float, and no integer node
            reads them as integers.
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
    """Decide for every node whether it is quantized or stays float.

    Args:
        graph: A prepared graph, shapes inferred.
        target: The target to quantize for.
        skip: Names of nodes, or operators, to keep float, with the reason.
        refused: Names of tensors that cannot be quantized, with the reason.
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
        _fall_back_to_float(integers, floats, _activations_after_float(integers, floats))
    if not target.integer_normalizations:
        _fall_back_to_float(integers, floats, _normalizations(graph, integers))
    if not target.follows_litert_spec:
        _fall_back_to_float(integers, floats, _slower_on_integers(graph, integers, target))
        specs = {name: integer.spec for name, integer in integers.items()}
        _fall_back_to_float(integers, floats, layers_faster_in_float(graph, specs, target))
    if target.quantizes_inputs_only:
        _fall_back_to_float(integers, floats, _leave_added_inputs_float(graph, integers, target))
    outputs = frozenset(_unread_float_outputs(integers, target))
    return PrecisionAssignment(integers, floats, dict(_fused_activations(integers)), outputs)


def _fall_back_to_float(
    integers: dict[str, QuantizedNode], floats: dict[str, str], reasons: Mapping[str, str]
) -> None:
    """Keep nodes float that could be quantized, with the reason."""
    for name, reason in reasons.items():
        del integers[name]
        floats[name] = reason


def _assign_node(
    node: Node, target: Target, skip: Mapping[str, str], refused: Mapping[str, str]
) -> QuantizedNode | str:
    """The node with its operands if it can be quantized by itself, otherwise the reason why it stays float."""
    op = operator_of(node)
    for key in (node.name or "", op):
        if key in skip:
            return skip[key]
    spec = OPS.get(spec_name(node))
    if spec is None:
        return f"operator {spec_name(node)} is not supported"
    if spec.op in target.float_is_faster:
        source, note = _measured_runtime(target)
        return f"{source} computes {spec.op} faster in float{note}"
    if not target.can_quantize(spec):
        return f"{target.source} has no integer kernel for {spec.op}"
    if infinite := infinite_attribute(node):
        return infinite
    operands = []
    for position, value in enumerate(node.inputs):
        if value is None:
            continue
        role = _input_role(spec, position, value)
        if problem := _input_problem(node, value, role, refused):
            return problem
        operands.append(Operand(position, value, role))
    if not any(o.role is Role.ACTIVATION and not is_constant(o.value) for o in operands):
        return "has no activation input (constants or indices only)"
    for name in map(name_of, node.outputs if spec.output_rule is not OutputRule.NONE else ()):
        if name in refused:
            return refused[name]
    return unsupported_reason(node, spec, target) or QuantizedNode(node, spec, tuple(operands))


def _input_role(spec: OpSpec, position: int, value: Value) -> Role:
    """The role of an input; a weight that is not constant may be an activation."""
    role = spec.role_of(position)
    if role is Role.WEIGHT and spec.two_activations and not is_constant(value):
        return Role.ACTIVATION
    return role


def _input_problem(node: Node, value: Value, role: Role, refused: Mapping[str, str]) -> str | None:
    """Why an input forbids integers; None if it does not."""
    if role is Role.KEEP:
        return None
    name = name_of(value)
    if name in refused:
        return refused[name]
    if dtype_of(value) != FLOAT32:
        return f"{name} is {dtype_of(value)}, not float32"
    constant = value.const_value if is_constant(value) else None
    if role is Role.ACTIVATION and constant is None:
        return f"{role.value} {name} is empty" if _is_always_empty(node, value) else None
    if constant is None:
        return f"{role.value} {name} is not constant"
    if constant.size == 0:
        return f"{role.value} {name} is empty"
    if has_non_finite(constant, infinite=role is not Role.VALUE):
        return f"{role.value} {name} holds NaN or Inf"
    shape = tuple(constant.shape.numpy())
    if role is Role.BIAS and not _has_one_per_channel(shape, _output_channels(node)):
        return f"bias {name} of shape {shape} is not one value for each of {_output_channels(node)} channels"
    return None


def _is_always_empty(node: Node, value: Value) -> bool:
    """Whether the tensor never holds a value. An input of Concat may be empty at first, as a cache is."""
    return node.op_type != "Concat" and 0 in (shape_of(value) or ())


def _has_one_per_channel(shape: tuple[int, ...], channels: int) -> bool:
    """Whether the last axis has one value for each channel, and all other axes have length 1."""
    return shape[-1:] == (channels,) and math.prod(shape) == channels


def _output_channels(node: Node) -> int:
    """The number of output channels by the weight's shape; -1 if the weight is not constant."""
    shape = constant_shape(node.inputs[1])
    return -1 if shape is None else output_channel_count(node, shape)


def _activations_after_float(
    integers: Mapping[str, QuantizedNode], floats: Mapping[str, str]
) -> dict[str, str]:
    """Activations whose producer stays float: a quantizer between them would cost time and gain nothing."""
    found = {}
    for name, integer in integers.items():
        before = integer.inputs_with_role(Role.ACTIVATION)[0]
        producer = before.producer()
        if producer is None or not integer.spec.is_activation or producer.name not in floats:
            continue
        spec = OPS.get(spec_name(producer))
        if spec is not None and spec.can_fuse_activation and consumers_of(before) == [integer.node]:
            found[name] = f"follows {producer.name or ''}, which stays float"
    return found


def _normalizations(graph: Graph, integers: Mapping[str, QuantizedNode]) -> dict[str, str]:
    pieces = normalization_nodes(graph)
    reason = "part of a normalization: 8 bits cannot hold its moments"
    return {name: reason for name in integers if name in pieces}


def _slower_on_integers(
    graph: Graph, integers: Mapping[str, QuantizedNode], target: Target
) -> dict[str, str]:
    """Nodes that are faster in float by the costs measured for the target."""
    specs = {name: integer.spec for name, integer in integers.items()}
    names = nodes_faster_in_float(graph, specs, dict(_fused_activations(integers)), target)
    source, note = _measured_runtime(target)
    by_itself, by_neighbours = (
        f"{source} computes it faster in float{note}",
        _FLOAT_NEIGHBOURS + note,
    )
    return {
        name: by_itself if Role.WEIGHT in specs[name].input_roles else by_neighbours
        for name in names
    }


def _measured_runtime(target: Target) -> tuple[str, str]:
    """The runtime that the target's costs were measured on, and a remark if another version is installed."""
    table = get_cost_table(target)
    return (target.source, "") if table is None else (table.source, table.version_note())


def _leave_added_inputs_float(
    graph: Graph, integers: dict[str, QuantizedNode], target: Target
) -> dict[str, str]:
    """Let sums read the output of the convolution that computes them as float; all other sums, with the reason."""
    added = inputs_added_by_kernels(graph, integers)
    for name, position in added.items():
        kept = tuple(o for o in integers[name].operands if o.position != position)
        integers[name] = replace(integers[name], operands=kept)
    reason = (
        f"{target.source} adds on integers only what a convolution writes that nothing else reads"
    )
    sums = [name for name, integer in integers.items() if integer.spec.op == "Add"]
    return {name: reason for name in sums if name not in added}


def _unread_float_outputs(integers: Mapping[str, QuantizedNode], target: Target) -> Iterator[str]:
    """Outputs of kernels that return float, where no quantized node reads them as integers."""
    if not (target.float_outputs or target.quantizes_inputs_only):
        return
    read = {name_of(v) for i in integers.values() for v in i.inputs_with_role(Role.ACTIVATION)}
    for integer in integers.values():
        if target.quantizes_inputs_only or returns_float(integer.node, integer.spec):
            yield from (name_of(v) for v in integer.node.outputs if name_of(v) not in read)


def _fused_activations(integers: Mapping[str, QuantizedNode]) -> Iterator[tuple[str, str]]:
    """Activations that are the only reader of a quantized producer that can fuse them, with that producer."""
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
