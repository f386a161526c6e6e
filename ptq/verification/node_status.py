"""Whether each node of a quantized graph runs in integers, and why not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ptq.core.ops import QLINEAR_FORMS
from ptq.core.opspec import OpSpec, OutputRule, QLinearForm, Role
from ptq.executor.arithmetics import get_arithmetic
from ptq.executor.float_islands import FloatIsland
from ptq.executor.program_reader import read_program
from ptq.model.graph import Graph
from ptq.model.node import (
    QUANTIZERS,
    Node,
    Value,
    get_attributes,
    get_constant,
    get_dtype,
    get_name,
    get_onnx_operator,
    get_operator,
    get_spec,
    is_constant,
    list_consumers,
)
from ptq.model.qdq.qdq_units import (
    explain_unsupported_unit,
    find_quantized_result,
    find_quantized_source,
    match_qdq_op,
)
from ptq.model.qdq.qlinear_inputs import explain_float_qlinear, read_operands
from ptq.rewrite.imported.normalize_qdq import normalize_qdq

_DYNAMIC = "DynamicQuantizeLinear"


@dataclass(frozen=True)
class NodeStatus:
    """How one node of a quantized graph runs.

    Attributes:
        node: Name of the node.
        op: Its operator.
        runs: ``integer``; ``float``, between DequantizeLinear and QuantizeLinear or outside all quantizers;
            ``index``, on shapes and indices; ``folded`` into a neighbouring node.
        why: The reason if it is not ``integer``.
    """

    node: str
    op: str
    runs: Literal["integer", "float", "index", "folded"]
    why: str = ""


def list_node_statuses(graph: Graph, arithmetic: str = "ort") -> tuple[NodeStatus, ...]:
    """Status of every node except quantizers, in graph order.

    Raises:
        UsageError: The arithmetic is unknown.
    """
    row = get_arithmetic(arithmetic)
    kernels, normalized = row.kernels, normalize_qdq(graph)
    program = read_program(normalized, kernels.__contains__, wide=row.wide_kernels)
    integers = {step.name for step in program.steps if not isinstance(step, FloatIsland)}
    others = {node.name: node for node in normalized.nodes if node.name not in integers}
    statuses = []
    for node in graph.nodes:
        op, name = get_operator(node), node.name or ""
        normalized_op = op if name not in others else get_operator(others[name])
        if op in QUANTIZERS or normalized_op in QUANTIZERS:
            continue
        if name in integers:
            statuses.append(NodeStatus(name, op, "integer"))
        elif name in others and _is_index_node(others[name]):
            why = "computes shapes, indices or conditions, which are never quantized"
            statuses.append(NodeStatus(name, op, "index", why))
        elif name in others:
            why = explain_float(others[name], kernels.__contains__)
            statuses.append(NodeStatus(name, op, "float", f"must stay float: {why}"))
        else:
            statuses.append(NodeStatus(name, op, "folded", "folded into a neighbouring node"))
    return tuple(statuses)


def _is_index_node(node: Node) -> bool:
    """Whether a node returns integers or Booleans that do not come from a quantizer."""
    types = [get_dtype(value) for value in node.outputs]
    return all(dtype in (np.int32, np.int64, np.bool_) for dtype in types)


def explain_float(node: Node, runs: Callable[[str], bool]) -> str:
    """Why a node cannot run in integers.

    Args:
        node: A node that does not run in integers.
        runs: Whether the arithmetic has a kernel for an operator.
    """
    op = get_operator(node)
    if op in QLINEAR_FORMS:
        return _explain_qlinear(node, *QLINEAR_FORMS[op])
    spec = get_spec(node)
    if spec is None or not runs(spec.op):
        return f"{op} has no integer kernel in this arithmetic"
    operands = [(spec.role_of(i), v) for i, v in enumerate(node.inputs) if v is not None]
    reasons = [_explain_operand(role, value) for role, value in operands if role is not Role.BIAS]
    if spec.output_rule is not OutputRule.NONE:
        reasons += [_explain_output(value) for value in node.outputs]
    # the bias is last: it becomes int32 only if all else is quantized, so that it is never the first cause
    reasons += [_explain_operand(role, value) for role, value in operands if role is Role.BIAS]
    matched = match_qdq_op(node)
    if matched is not None:
        reasons.append(explain_unsupported_unit(matched))
    return next(
        (reason for reason in reasons if reason),
        "its attributes or constants have no integer form in this arithmetic",
    )


def _explain_qlinear(node: Node, spec: OpSpec, form: QLinearForm) -> str:
    """Why a QLinear operator does not run in the integer executor."""
    operands = read_operands(node, form)
    if operands is None:
        return "an input is missing"
    reason = explain_float_qlinear(node, spec, operands)
    return reason or "its scales or zero points are not constants that a kernel supports"


def _explain_operand(role: Role, value: Value) -> str:
    """Why an input does not have the integers of its role; empty if it does."""
    if role in (Role.KEEP, Role.VALUE):
        return ""
    what, quantized = f"{role.value} {get_name(value)}", find_quantized_source(value)
    if quantized is None:
        return f"{what} {_explain_float_value(value)}"
    if quantized.params.qtype.bits != (32 if role is Role.BIAS else 8):
        return f"{what} is {quantized.params.qtype.name}"
    return ""


def _explain_float_value(value: Value) -> str:
    maker = value.producer()
    if maker is None or get_onnx_operator(maker) != "DequantizeLinear":
        return "is a float constant" if is_constant(value) else "is computed in float"
    return _explain_quantizer(maker, maker.inputs[0])


def _explain_output(value: Value) -> str:
    """Why a float result does not become 8-bit integers; empty if it does."""
    what, quantized = f"output {get_name(value)}", find_quantized_result(value)
    if quantized is not None:
        if quantized.params.qtype.bits != 8:
            return f"{what} is {quantized.params.qtype.name}"
        return ""
    if value.is_graph_output():
        return f"{what} is a float output of the model"
    readers = list_consumers(value)
    quantizers = [
        node for node in readers if get_onnx_operator(node) in ("QuantizeLinear", _DYNAMIC)
    ]
    if not quantizers:
        return f"{what} has no QuantizeLinear after it"
    if len(readers) > 1:
        return f"{what} has {len(readers)} readers; it needs exactly one, a QuantizeLinear"
    return f"{what} {_explain_quantizer(quantizers[0], quantizers[0].outputs[0])}"


def _explain_quantizer(quantizer: Node, integers: Value | None) -> str:
    """Why a quantizer is not one of 8-bit integers with constant scales along at most one axis."""
    scales = None if get_onnx_operator(quantizer) == _DYNAMIC else get_constant(quantizer.inputs[1])
    if scales is None:
        return "has a scale that is computed at run time"
    if scales.ndim > 1 or get_attributes(quantizer).get("block_size", 0):
        return "is quantized in blocks"
    if scales.dtype.name != "float32":
        return f"has a scale of {scales.dtype.name}"
    kind = integers.dtype.name.lower() if integers is not None and integers.dtype else "unknown"
    return f"is quantized as {kind}"
