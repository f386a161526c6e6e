"""Node by node, what of a quantized graph runs on integers, and why the rest must stay float."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ptq.core.ops import OPS, QLINEAR_FORMS
from ptq.core.opspec import OpSpec, OutputRule, QLinearForm, Role
from ptq.executor.arithmetics import kernels_of_arithmetic
from ptq.executor.float_islands import FloatIsland
from ptq.executor.program_reader import read_program
from ptq.model.graph import Graph
from ptq.model.node import (
    QUANTIZERS,
    Node,
    Value,
    attributes_of,
    constant_of,
    consumers_of,
    dtype_of,
    name_of,
    operator_of,
    spec_name,
)
from ptq.model.qdq_units import match_qdq_op, quantized_result, quantized_source, unsupported_reason
from ptq.model.qlinear_inputs import qlinear_unsupported_reason, read_operands
from ptq.rewrite.imported.normalize_qdq import normalize_qdq


@dataclass(frozen=True)
class NodeStatus:
    """What becomes of one node of a quantized graph.

    Attributes:
        node: Its name.
        op: Its operator.
        runs: ``integer``; ``float``, between a DequantizeLinear and a QuantizeLinear or beyond all of
            them; ``index``, on shapes and indices; ``folded``, its work being done by a neighbour.
        why: The reason where it is not integer.
    """

    node: str
    op: str
    runs: Literal["integer", "float", "index", "folded"]
    why: str = ""


def node_statuses(graph: Graph, arithmetic_name: str = "ort") -> tuple[NodeStatus, ...]:
    """The fate of every node but the quantizers, in the graph's order.

    Raises:
        UsageError: There is no such arithmetic.
    """
    kernels = kernels_of_arithmetic(arithmetic_name)
    adopted = normalize_qdq(graph)
    program = read_program(adopted, kernels.__contains__)
    integers = {step.name for step in program.steps if not isinstance(step, FloatIsland)}
    floats = {node.name: node for node in adopted.nodes if node.name not in integers}
    found = []
    for node in graph.nodes:
        op, name = operator_of(node), node.name or ""
        read = op if name not in floats else operator_of(floats[name])
        if op in QUANTIZERS or read in QUANTIZERS:
            continue
        if name in integers:
            found.append(NodeStatus(name, op, "integer"))
        elif name in floats and _is_index_node(floats[name]):
            found.append(
                NodeStatus(name, op, "index", "shapes, indices or conditions, never quantized")
            )
        elif name in floats:
            why = reason_for_float(floats[name], kernels.__contains__)
            found.append(NodeStatus(name, op, "float", f"must stay float: {why}"))
        else:
            found.append(NodeStatus(name, op, "folded", "a neighbour does its work"))
    return tuple(found)


def _is_index_node(node: Node) -> bool:
    """Whether a node gives integers or truth values that no quantizer made."""
    types = [dtype_of(value) for value in node.outputs]
    return all(dtype in (np.int32, np.int64, np.bool_) for dtype in types)


def reason_for_float(node: Node, runs: Callable[[str], bool]) -> str:
    """Why a node cannot run on integers."""
    op = operator_of(node)
    if op in QLINEAR_FORMS:
        return _qlinear_reason(node, *QLINEAR_FORMS[op])
    spec = OPS.get(spec_name(node))
    if spec is None or not runs(op):
        return f"{op} has no integer kernel in this arithmetic"
    operands = [(spec.role_of(i), v) for i, v in enumerate(node.inputs) if v is not None]
    reasons = [_operand_reason(role, value) for role, value in operands if role is not Role.BIAS]
    if spec.output_rule is not OutputRule.NONE:
        reasons += [_output_reason(value) for value in node.outputs]
    # last: a bias becomes integers with all else, so that it is never the first cause
    reasons += [_operand_reason(role, value) for role, value in operands if role is Role.BIAS]
    found = match_qdq_op(node)
    if found is not None:
        reasons.append(unsupported_reason(found))
    return next(
        (reason for reason in reasons if reason),
        "its attributes or constants have no integer form in this arithmetic",
    )


def _qlinear_reason(node: Node, spec: OpSpec, form: QLinearForm) -> str:
    """Why a QLinear operator is left to its runtime."""
    operands = read_operands(node, form)
    if operands is None:
        return "it lacks an input"
    found = qlinear_unsupported_reason(node, spec, operands)
    return found or "its scales or zero points are not constants that a kernel takes"


def _operand_reason(role: Role, value: Value) -> str:
    """Why an input is not the integers that its role asks for; nothing where it is."""
    if role in (Role.KEEP, Role.VALUE):
        return ""
    what, found = f"{role.value} {name_of(value)}", quantized_source(value)
    if found is None:
        return f"{what} {_float_value_reason(value)}"
    if found.params.qtype.bits != (32 if role is Role.BIAS else 8):
        return f"{what} is {found.params.qtype.name}"
    return ""


def _float_value_reason(value: Value) -> str:
    """Why no integers stand behind a real value."""
    maker = value.producer()
    if maker is None or "DequantizeLinear" not in operator_of(maker):
        return "is a float constant" if constant_of(value) is not None else "is computed in float"
    return _quantizer_reason(maker, maker.inputs[0])


def _output_reason(value: Value) -> str:
    """Why a real result does not become integers of 8 bits; nothing where it does."""
    what, found = f"output {name_of(value)}", quantized_result(value)
    if found is not None:
        if found.params.qtype.bits != 8:
            return f"{what} is {found.params.qtype.name}"
        return ""
    if value.is_graph_output():
        return f"{what} is an output of the model in float"
    readers = consumers_of(value)
    quantizers = [node for node in readers if "QuantizeLinear" in operator_of(node)]
    if not quantizers:
        return f"{what} meets no QuantizeLinear"
    if len(readers) > 1:
        return f"{what} has {len(readers)} readers, not one QuantizeLinear alone"
    return f"{what} {_quantizer_reason(quantizers[0], quantizers[0].outputs[0])}"


def _quantizer_reason(quantizer: Node, integers: Value | None) -> str:
    """What about a quantizer is beyond 8-bit integers with constant scales along at most one axis."""
    scales = constant_of(quantizer.inputs[1])
    if scales is None:
        return "has a scale that is computed at run time"
    if scales.ndim > 1 or attributes_of(quantizer).get("block_size", 0):
        return "is quantized in blocks"
    if scales.dtype.name != "float32":
        return f"has a scale of {scales.dtype.name}"
    kind = integers.dtype.name.lower() if integers is not None and integers.dtype else "unknown"
    return f"is quantized as {kind}"
