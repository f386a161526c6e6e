"""Quantizers of 16 bits, which ONNX has from opset 21 on: before that, those of Microsoft's domain."""

from __future__ import annotations

from ptq.core.opset_changes import WIDE_QUANTIZER_OPSET
from ptq.core.opspec import MICROSOFT_PREFIX
from ptq.model.graph import Graph
from ptq.model.node import QUANTIZERS, get_dtype, get_operator
from ptq.model.qdq.wide_activations import WIDE_TYPES


def allow_16_bits(graph: Graph) -> None:
    """Move quantizers of 16 bits to Microsoft's domain if the opset has none, in place."""
    if graph.opset >= WIDE_QUANTIZER_OPSET:
        return
    domain = MICROSOFT_PREFIX.removesuffix("::")
    for node in graph.nodes:
        if get_operator(node) not in QUANTIZERS:
            continue
        integers = node.outputs[0] if node.op_type == "QuantizeLinear" else node.inputs[0]
        if integers is not None and get_dtype(integers) in WIDE_TYPES:
            node.domain = domain
            graph.model.opset_imports.setdefault(domain, 1)
