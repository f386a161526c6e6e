"""Whether a model quantizes activations to 16 bits.

ONNX Runtime from 1.32 on computes a product of float activations and dequantized 8-bit weights by MatMulNBits. By
default this rounds the activations to 8 bits for each run, whatever their own quantizer says. Products of 8-bit
activations become integer kernels before that.
"""

from __future__ import annotations

import numpy as np

from ptq.model.graph import Graph
from ptq.model.node import QUANTIZE_OPS, get_dtype, get_operator

WIDE_TYPES = (np.dtype(np.int16), np.dtype(np.uint16))


def has_16_bit_activations(graph: Graph) -> bool:
    """Whether a quantizer of the main graph writes 16 bits; that of Microsoft's domain counts too."""
    return any(
        get_operator(node) in QUANTIZE_OPS
        and any(
            v is not None and get_dtype(v) in WIDE_TYPES for v in (*node.inputs[2:], *node.outputs)
        )
        for node in graph.nodes
    )
