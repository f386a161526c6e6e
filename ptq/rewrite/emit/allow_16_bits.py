"""Quantizers of 16 bits, which ONNX has from opset 21 on: before that, those of Microsoft's domain."""

from __future__ import annotations

import numpy as np

from ptq.model.graph import Graph
from ptq.model.node import MICROSOFT_PREFIX, QUANTIZERS, dtype_of, operator_of

_OPSET = 21
_WIDE = (np.dtype(np.int16), np.dtype(np.uint16))


def allow_16_bits(graph: Graph) -> None:
    """Move quantizers of 16 bits to Microsoft's domain if the opset has none, in place."""
    if graph.opset >= _OPSET:
        return
    domain = MICROSOFT_PREFIX.removesuffix("::")
    for node in graph.nodes:
        if operator_of(node) not in QUANTIZERS:
            continue
        integers = node.outputs[0] if node.op_type == "QuantizeLinear" else node.inputs[0]
        if integers is not None and dtype_of(integers) in _WIDE:
            node.domain = domain
            graph.model.opset_imports.setdefault(domain, 1)
