"""A QLinearConv, and a whole QDQ network, in onnx's ReferenceEvaluator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from layers import Layer
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ptq.model.graph import Graph

OPSET = 21
"""The oldest opset whose QuantizeLinear and DequantizeLinear the ReferenceEvaluator has."""


def build_evaluator(layer: Layer) -> Callable[[], NDArray[Any]]:
    """Return a call that runs the convolution with its input in place."""
    x, w, y = layer.qparams
    constants = {
        "xs": x.scale, "xz": x.zero_point.astype(x.qtype.dtype),
        "w": np.moveaxis(layer.weights, -1, 1),
        "ws": w.scale, "wz": w.zero_point.astype(w.qtype.dtype),
        "ys": y.scale, "yz": y.zero_point.astype(y.qtype.dtype),
        "b": layer.bias,
    }  # fmt: skip
    attrs = layer.site.attrs
    names = ("strides", "pads", "dilations", "group")
    node = helper.make_node(
        "QLinearConv",
        ["x", *constants],
        ["y"],
        **{name: attrs[name] for name in names if name in attrs},
    )
    kinds = [helper.np_dtype_to_tensor_dtype(m.qtype.dtype) for m in (x, y)]
    ends = [helper.make_tensor_value_info(n, k, None) for n, k in zip("xy", kinds, strict=True)]
    weights = [numpy_helper.from_array(np.ascontiguousarray(a), n) for n, a in constants.items()]
    graph = helper.make_graph([node], "layer", ends[:1], ends[1:], weights)
    opsets = [helper.make_opsetid("", OPSET)]
    reference = ReferenceEvaluator(helper.make_model(graph, opset_imports=opsets, ir_version=10))
    feed = {"x": np.ascontiguousarray(np.moveaxis(layer.x, -1, 1))}

    def run() -> NDArray[Any]:
        found: NDArray[Any] = reference.run(None, feed)[0]
        return found

    return run


def build_network_evaluator(
    quantized: Graph, feed: Mapping[str, NDArray[Any]]
) -> Callable[[], list[Any]]:
    """Return a call that runs a QDQ model, raised to an opset that the evaluator has."""
    proto = quantized.to_proto()
    for opset in proto.opset_import:
        if opset.domain in ("", "ai.onnx"):
            opset.version = max(opset.version, OPSET)
    reference = ReferenceEvaluator(proto)
    return lambda: list(reference.run(None, dict(feed)))
