"""Integers written with one scale and read with another → two tensors with an Identity between them.

Each tensor then has one scale. ONNX Runtime's optimizer removes the Identity again.
"""

from __future__ import annotations

from ptq.core.ops import QLINEAR_FORMS
from ptq.core.types import QuantParams
from ptq.model.graph import Graph
from ptq.model.node import Node, Value, get_operator, get_spec
from ptq.model.qdq.qdq_units import read_qparams, read_quantizer
from ptq.model.qdq.qlinear_inputs import read_operands
from ptq.rewrite.change import Change


def split_reinterpreted_tensors(graph: Graph) -> list[Change]:
    """Give integers that are read with other parameters than they are written with a second name, in place."""
    count = sum(_split(graph, node, axes_only=False) for node in graph.nodes)
    return [Change("split_reinterpreted_tensors", count)] if count else []


def split_reinterpreted_axes(graph: Graph) -> list[Change]:
    """Do so only where the channel axes differ: one side has per-channel scales, the other has not."""
    count = sum(_split(graph, node, axes_only=True) for node in graph.nodes)
    return [Change("split_reinterpreted_tensors", count)] if count else []


def _split(graph: Graph, node: Node, *, axes_only: bool) -> bool:
    """Insert the Identity before a DequantizeLinear; whether it was needed."""
    integers = node.inputs[0] if get_operator(node) == "DequantizeLinear" else None
    written = None if integers is None else _find_written_qparams(integers)
    if integers is None or written is None:
        return False
    read = read_quantizer(node, integers)
    if read is None or written == read.params:
        return False
    if axes_only and written.axis == read.params.axis:
        return False
    copy = graph.insert(
        "Identity",
        [integers],
        before=node,
        output=f"{integers.name}_as_{node.name}",
        dtype=read.params.qtype.dtype,
        shape_like=integers,
    )
    node.replace_input_with(0, copy)
    return True


def _find_written_qparams(integers: Value) -> QuantParams | None:
    """The parameters with which integers are written, traced through data movement; None if they are unknown."""
    writer = integers.producer()
    if writer is None:
        return None
    op = get_operator(writer)
    if op == "QuantizeLinear":
        found = read_quantizer(writer, integers)
        return None if found is None else found.params
    if op in QLINEAR_FORMS:
        operands = read_operands(writer, QLINEAR_FORMS[op][1])
        if (
            operands is None
            or operands.output_qparams is None
            or operands.output_qparams[1] is None
        ):
            return None
        return read_qparams(*operands.output_qparams, integers)
    spec = get_spec(writer)
    if spec is None or not spec.moves_integers or op == "Identity":
        return None
    before = writer.inputs[0]
    return None if before is None else _find_written_qparams(before)
