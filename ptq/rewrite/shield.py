"""Keeps float what is meant to stay float.

From its basic optimizations on, ONNX Runtime quantizes by itself, per tensor and by min/max, a float constant
weight whose operator stands between a DequantizeLinear and a QuantizeLinear (measured on 1.31.1). A Sum of
one operand before the QuantizeLinear is the identity, and hides the pattern.
"""

from __future__ import annotations

import numpy as np

from ptq.graph import Graph, Node, constant, consumers, name_of, operator

WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")


def shield_float_weights(graph: Graph) -> None:
    """Part float weighted operators from the quantizers behind them, in place."""
    for node in graph.nodes:
        if operator(node) not in WEIGHTED or not _tempting(node):
            continue
        output = node.outputs[0]
        quantizers = [n for n in consumers(output) if operator(n) == "QuantizeLinear"]
        if not quantizers:
            continue
        shielded = graph.insert(
            "Sum",
            [output],
            after=node,
            output=f"{name_of(output)}_shielded",
            dtype=np.dtype(np.float32),
            shape_like=output,
        )
        for quantizer in quantizers:
            quantizer.replace_input_with(0, shielded)


def _tempting(node: Node) -> bool:
    """Whether the operator reads a dequantized tensor and a float constant."""
    makers = [value.producer() for value in node.inputs if value is not None]
    dequantized = any(m is not None and operator(m) == "DequantizeLinear" for m in makers)
    return dequantized and any(constant(value) is not None for value in node.inputs[:2])
