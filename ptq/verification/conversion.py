"""Turns a quantized graph from one form into the other: QDQ ↔ ONNX Runtime's QLinear operators."""

from __future__ import annotations

from collections.abc import Set
from typing import Literal, get_args

from ptq.core.errors import UnsupportedError, UsageError
from ptq.core.ops import OPS
from ptq.executor.executor import Executor
from ptq.executor.program import Step
from ptq.model.graph import Graph
from ptq.model.node import QUANTIZERS, operator_of
from ptq.model.qdq_units import quantized_op, quantized_source
from ptq.rewrite.emit.to_qlinear import has_ort_kernel, to_qlinear
from ptq.rewrite.imported.normalize_qdq import normalize_qdq
from ptq.rewrite.imported.qlinear_to_qdq import qlinear_to_qdq
from ptq.rewrite.shift_to_uint8 import activations_to_uint8, pairs_to_uint8
from ptq.verification.equivalence import first_difference
from ptq.verification.node_status import NodeStatus, reason_for_float
from ptq.verification.ort_like_executor import steps_ort_runs_in_float

_IN_FLOAT = "ONNX Runtime computes it in float between quantizers"

_ZERO_POINT_BEFORE_ROUNDING = frozenset(["Add", "AveragePool", "Mul"])
"""Their zero point is added before float32 is rounded to an integer: 128 more can round otherwise beside a tie."""

Form = Literal["qdq", "qoperator"]


def convert_graph(graph: Graph, form: Form, *, integers: bool = False) -> Graph:
    """The same integer function, proved so, in the other form; inputs, outputs and integer tensors keep their names.

    Where a sum, product or average stands on int8 that ONNX Runtime moves to uint8, the QOperator form is in uint8.
    What the form cannot express stays as it is: operators without a QLinear kernel keep their quantizers (``kept``),
    MatMulInteger, ConvInteger and DynamicQuantizeLinear their integers. So do in the QOperator form those that ONNX
    Runtime computes in float between quantizers, so that its outputs stay the same too.

    Args:
        graph: A quantized graph.
        form: ``qdq`` or ``qoperator``.
        integers: Give those QLinear operators too; where int8 and uint8 activations meet, all become uint8, 128
            more. A value that float puts beside a tie can come out a step apart.

    Raises:
        UsageError: There is no such form.
        UnsupportedError: A QLinear operator has no float form, or an output would be computed otherwise; the
            text says which and why.
    """
    if form not in get_args(Form):
        raise UsageError(f"form {form!r} is unknown; choose one of {', '.join(get_args(Form))}")
    if form == "qdq":
        source, converted = graph, qlinear_to_qdq(graph)
    else:
        floats = {
            name
            for step in (() if integers else steps_ort_runs_in_float(graph))
            for name in step.outputs
        }
        source = (
            activations_to_uint8(normalize_qdq(graph))
            if integers
            else _with_ort_uint8_pairs(graph, floats)
        )
        converted = to_qlinear(source, floats)
    # before opset 13 scales a channel raise the opset of the form that needs quantizers for them, and of that alone
    different = first_difference(source, converted) if graph.opset >= 13 else None
    if different is not None:
        raise UnsupportedError(
            f"output {different} would not be the same function in form {form}; keep the model as it is"
        )
    return converted


def _with_ort_uint8_pairs(graph: Graph, floats: Set[str]) -> Graph:
    """The graph, with int8 in uint8 as ONNX Runtime moves it where that can be seen in the integers.

    That is where it rounds otherwise for it, and where it computes in float because int8 and uint8 meet.
    """
    source = normalize_qdq(graph)
    moved, names = pairs_to_uint8(source)
    steps = [step for step in Executor(graph).program.steps if isinstance(step, Step)]
    told = [
        step
        for step in steps
        if step.op in _ZERO_POINT_BEFORE_ROUNDING or not floats.isdisjoint(step.outputs)
    ]
    seen = {name for step in told for name in (*step.inputs, *step.outputs)}
    return source if names.isdisjoint(seen) else moved


def runs_in_float(converted: Graph) -> tuple[NodeStatus, ...]:
    """The operators of a QDQ form that ONNX Runtime computes in float, though there are integer kernels for them."""
    why = f"{_IN_FLOAT}; a value beside a tie can come out a step apart"
    return tuple(
        NodeStatus(step.name, step.op, "float", why) for step in steps_ort_runs_in_float(converted)
    )


def not_converted(converted: Graph) -> tuple[NodeStatus, ...]:
    """The operators that stay between quantizers in the QOperator form, and why."""
    found = []
    for node in converted.nodes:
        op = operator_of(node)
        if op in QUANTIZERS or all(quantized_source(value) is None for value in node.inputs):
            continue
        found_unit = quantized_op(node)
        if found_unit is None:
            why = reason_for_float(node, OPS.__contains__)
        elif OPS[op].qlinear is None:
            why = f"ONNX Runtime has no QLinear operator for {op}"
        elif has_ort_kernel(found_unit):
            why = _IN_FLOAT
        else:
            why = f"{_IN_FLOAT}: no QLinear operator has these types, or these scales"
        found.append(NodeStatus(node.name or "", op, "float", why))
    return tuple(found)
