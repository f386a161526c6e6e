"""A graph of one quantizer, whose time for one element is the unit of all times."""

from __future__ import annotations

import onnx

from ptq.model.graph import Graph


def build_quantizer_graph(size: int) -> Graph:
    """QuantizeLinear of a vector ``x``."""
    text = (
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[{size}] x) => (uint8[{size}] y) '
        "<float s = {0.05}, uint8 z = {128}> { y = QuantizeLinear(x, s, z) }"
    )
    return Graph.from_proto(onnx.parser.parse_model(text))
