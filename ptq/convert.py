"""Turns a quantized graph from one form into the other: QDQ ↔ ONNX Runtime's QLinear operators."""

from __future__ import annotations

from typing import Literal, get_args

from ptq.errors import UsageError
from ptq.graph import Graph
from ptq.rewrite.adopt import adopt
from ptq.rewrite.dequantize import to_qdq_form
from ptq.rewrite.qlinear import to_qlinear

Form = Literal["qdq", "qoperator"]


def convert(graph: Graph, form: Form) -> Graph:
    """The same integer function in the other form; names of inputs, outputs and integer tensors stay.

    What the form cannot express stays as it is: operators without a QLinear kernel keep their quantizers,
    MatMulInteger, ConvInteger and DynamicQuantizeLinear their integers.

    Raises:
        UsageError: There is no such form.
        UnsupportedError: A QLinear operator has no float form; the text says which and why.
    """
    if form not in get_args(Form):
        raise UsageError(f"form {form!r} is unknown; choose one of {', '.join(get_args(Form))}")
    return to_qdq_form(graph) if form == "qdq" else to_qlinear(adopt(graph))
