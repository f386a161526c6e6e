"""A Pad between quantizers whose number is no integer of its input."""

from __future__ import annotations

import numpy as np

from ptq.model.qdq.qdq_units import QuantizedOp, QuantizedTensor, get_all_attributes


def is_padded_by_float(found: QuantizedOp) -> bool:
    """Whether a Pad with another scale behind it fills with a number that is no integer of its input.

    ONNX Runtime pads in float there, and rounds the number once, to the output's integers.
    """
    before, after = found.inputs[0], found.outputs[0]
    if found.spec.op != "Pad" or not isinstance(before, QuantizedTensor) or after is None:
        return False
    value = np.float32(get_all_attributes(found.node).get("value", 0.0))
    params = before.params
    return params != after.params and bool(params.dequantize(params.quantize(value)) != value)
