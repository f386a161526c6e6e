"""The precision of a node by itself: its operator, its inputs and the kernels of the target."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ptq.core.opspec import OpSpec, OutputRule, Role
from ptq.core.target import Target
from ptq.core.types import FLOAT32, QuantParams
from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    Value,
    find_infinite_attribute,
    get_constant_shape,
    get_dtype,
    get_name,
    get_node_name,
    get_shape,
    get_spec,
    get_spec_name,
    is_constant,
)
from ptq.model.session.runtime_types import explain_unknown_type
from ptq.model.weights.finite_constants import has_non_finite
from ptq.model.weights.layer_weights import count_output_channels
from ptq.solver.partition.kernel_limits import explain_unsupported_node
from ptq.solver.partition.shipped_tables import describe_measured_runtime


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

    def list_activation_qparams(
        self,
        tensors: Mapping[str, QuantParams],
        edges: Mapping[tuple[str, int], QuantParams],
    ) -> list[QuantParams]:
        """The parameters in which the node reads its activations, in order of the inputs.

        Args:
            tensors: The parameters of each tensor.
            edges: The parameters of inputs that are requantized, by node and position.
        """
        name = get_node_name(self.node)
        return [
            edges.get((name, o.position)) or tensors[get_name(o.value)]
            for o in self.operands
            if o.role is Role.ACTIVATION
        ]


NodeVerdict = QuantizedNode | str
"""A node that can be quantized, or the reason why it stays float."""


def assess_nodes(graph: Graph, refused: Mapping[str, str]) -> list[tuple[Node, NodeVerdict]]:
    """Each node with its operands, if its operator and its inputs allow integers on some target; else the reason.

    Args:
        graph: A prepared graph, shapes inferred.
        refused: Names of tensors that cannot be quantized, with the reason.
    """
    return [(node, _assess_node(node, refused)) for node in graph.nodes]


def assess_for_target(node: Node, verdict: NodeVerdict, target: Target) -> NodeVerdict:
    """The verdict on a node of `assess_nodes` for a target."""
    spec = get_spec(node)
    if spec is None:
        return verdict
    if spec.op in target.float_is_faster:
        source, note = describe_measured_runtime(target)
        return f"{source} computes {spec.op} faster in float{note}"
    if not target.can_quantize(spec):
        return f"{target.source} has no integer kernel for {spec.op}"
    if isinstance(verdict, str):
        return verdict
    return explain_unsupported_node(node, spec, target) or verdict


def _assess_node(node: Node, refused: Mapping[str, str]) -> NodeVerdict:
    spec = get_spec(node)
    if spec is None:
        return f"operator {get_spec_name(node)} is not supported"
    if infinite := find_infinite_attribute(node):
        return infinite
    operands = []
    for position, value in enumerate(node.inputs):
        if value is None:
            continue
        role = _get_input_role(spec, position, value)
        if problem := _explain_input(node, value, role, refused):
            return problem
        operands.append(Operand(position, value, role))
    if not any(o.role is Role.ACTIVATION and not is_constant(o.value) for o in operands):
        return "has no activation input (constants or indices only)"
    for name in map(get_name, node.outputs if spec.output_rule is not OutputRule.NONE else ()):
        if name in refused:
            return refused[name]
    return QuantizedNode(node, spec, tuple(operands))


def _get_input_role(spec: OpSpec, position: int, value: Value) -> Role:
    """The role of an input; a weight that is not constant may be an activation."""
    role = spec.role_of(position)
    if role is Role.WEIGHT and spec.two_activations and not is_constant(value):
        return Role.ACTIVATION
    return role


def _explain_input(node: Node, value: Value, role: Role, refused: Mapping[str, str]) -> str | None:
    """Why an input forbids integers; None if it does not."""
    if role is Role.KEEP:
        return None
    name = get_name(value)
    if name in refused:
        return refused[name]
    if value.type is None:
        return explain_unknown_type(value)
    if get_dtype(value) != FLOAT32:
        return f"{name} is {get_dtype(value)}, not float32"
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
    if role is Role.BIAS and not _has_one_per_channel(shape, _count_channels(node)):
        return f"bias {name} of shape {shape} is not one value for each of {_count_channels(node)} channels"
    return None


def _is_always_empty(node: Node, value: Value) -> bool:
    """Whether the tensor never holds a value. An input of Concat may be empty at first, as a cache is."""
    return node.op_type != "Concat" and 0 in (get_shape(value) or ())


def _has_one_per_channel(shape: tuple[int, ...], channels: int) -> bool:
    """Whether the last axis has one value for each channel, and all other axes have length 1."""
    return shape[-1:] == (channels,) and math.prod(shape) == channels


def _count_channels(node: Node) -> int:
    """The number of output channels by the weight's shape; -1 if the weight is not constant."""
    shape = get_constant_shape(node.inputs[1])
    return -1 if shape is None else count_output_channels(node, shape)
