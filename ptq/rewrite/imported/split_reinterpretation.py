"""What do integers mean that are written with one scale and read with another? Two things: a tensor has one meaning.

An Identity between gives the same integers the other one; ONNX Runtime's optimizer takes it out again.
"""

from __future__ import annotations

from ptq.core.ops import OPS, QLINEAR_FORMS
from ptq.core.types import QuantParams
from ptq.model.graph import Graph
from ptq.model.node import Value, operator_of, spec_name
from ptq.model.qdq_units import qparams_of, read_quantizer
from ptq.model.qlinear_inputs import read_operands


def split_reinterpreted_tensors(graph: Graph, *, axes: bool = False) -> None:
    """Give integers that are written with one scale and read with another a second name, in place.

    Args:
        graph: A graph with quantizers or QLinear operators.
        axes: Only where one of them has a scale a channel.
    """
    for node in graph.nodes:
        integers = node.inputs[0] if operator_of(node) == "DequantizeLinear" else None
        written = None if integers is None else _written_qparams(integers)
        if integers is None or written is None:
            continue
        read = read_quantizer(node, integers)
        if read is None or written == read.params:
            continue
        if not axes or written.axis != read.params.axis:
            again = graph.insert(
                "Identity",
                [integers],
                before=node,
                output=f"{integers.name}_as_{node.name}",
                dtype=read.params.qtype.dtype,
                shape_like=integers,
            )
            node.replace_input_with(0, again)


def _written_qparams(integers: Value) -> QuantParams | None:
    """What integers mean by what writes them, past operators that only move them; None where it does not say."""
    writer = integers.producer()
    if writer is None:
        return None
    op = operator_of(writer)
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
        return qparams_of(*operands.output_qparams, integers)
    spec = OPS.get(spec_name(writer))
    if spec is None or not spec.moves_integers or op == "Identity":
        return None
    before = writer.inputs[0]
    return None if before is None else _written_qparams(before)
