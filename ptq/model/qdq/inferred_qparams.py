"""Scale and zero point of integers that no quantizer produces, e.g. of an embedding table, from their readers."""

from __future__ import annotations

from ptq.core.ops import QLINEAR_FORMS
from ptq.core.types import QuantParams
from ptq.model.node import Value, get_operator, get_spec, list_consumers
from ptq.model.qdq.qdq_units import read_qparams, read_quantizer
from ptq.model.qdq.qlinear_inputs import read_operands


def infer_qparams(integers: Value) -> QuantParams | None:
    """Parameters that the first reader uses; it may read them through data-movement operators."""
    for node in list_consumers(integers):
        op = get_operator(node)
        if op == "DequantizeLinear":
            found = read_quantizer(node, integers)
            if found is not None:
                return found.params
        if op in QLINEAR_FORMS:
            operands = read_operands(node, QLINEAR_FORMS[op][1])
            for value, scale, zero_point in operands.triples.values() if operands else ():
                if value is integers:
                    return read_qparams(scale, zero_point, integers)
        spec = get_spec(node)
        if (
            spec is not None
            and spec.moves_integers
            and node.inputs[0] is integers
            and (behind := infer_qparams(node.outputs[0])) is not None
        ):
            return behind
    return None
