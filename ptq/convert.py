"""Turns a quantized graph from one form into the other: QDQ ↔ ONNX Runtime's QLinear operators."""

from __future__ import annotations

from typing import Literal, get_args

from ptq.equivalence import first_difference
from ptq.errors import UnsupportedError, UsageError
from ptq.foreign import Fate, why_float
from ptq.graph import Graph
from ptq.nodes import QUANTIZERS, operator
from ptq.ops import OPS
from ptq.rewrite.adopt import adopt
from ptq.rewrite.dequantize import to_qdq_form
from ptq.rewrite.qlinear import to_qlinear
from ptq.rewrite.unsigned_activations import unsigned_activations
from ptq.units import dequantized, unit

Form = Literal["qdq", "qoperator"]


def convert(graph: Graph, form: Form) -> Graph:
    """The same integer function, proved so, in the other form; inputs, outputs and integer tensors keep their names.

    Where int8 and uint8 activations meet, the QOperator form has them all in uint8, 128 more. What the form
    cannot express stays as it is: operators without a QLinear kernel keep their quantizers (``kept``),
    MatMulInteger, ConvInteger and DynamicQuantizeLinear their integers.

    Raises:
        UsageError: There is no such form.
        UnsupportedError: A QLinear operator has no float form, or an output would be computed otherwise; the
            text says which and why.
    """
    if form not in get_args(Form):
        raise UsageError(f"form {form!r} is unknown; choose one of {', '.join(get_args(Form))}")
    if form == "qdq":
        source, converted = graph, to_qdq_form(graph)
    else:
        source = unsigned_activations(adopt(graph))
        converted = to_qlinear(source)
    # before opset 13 an operator may mean several axes in one form and be read as its runtime's own in the other
    different = first_difference(source, converted) if graph.opset >= 13 else None
    if different is not None:
        raise UnsupportedError(
            f"output {different} would not be the same function in form {form}; keep the model as it is"
        )
    return converted


def kept(converted: Graph) -> tuple[Fate, ...]:
    """The operators that stay between quantizers in the QOperator form, and why."""
    found = []
    for node in converted.nodes:
        op = operator(node)
        if op in QUANTIZERS or all(dequantized(value) is None for value in node.inputs):
            continue
        if unit(node) is None:
            why = why_float(node, OPS.__contains__)
        elif OPS[op].qlinear is None:
            why = f"ONNX Runtime has no QLinear operator for {op}"
        else:
            why = "no QLinear operator has these types, or these scales"
        found.append(Fate(node.name or "", op, "float", why))
    return tuple(found)
