"""Which quantized nodes ONNX Runtime's XNNPACK provider takes, and why not the others.

The rules are those of the provider (onnxruntime/core/providers/xnnpack): types of quantized tensors, shapes that are
known when the model is loaded, and attributes. A node that it does not take runs in ONNX Runtime's own kernels, so a
finding is a note; u8 activations with s8 weights, which keep it from every layer, are an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from ptq.model.graph import Graph
from ptq.model.node import (
    QUANTIZERS,
    Node,
    Value,
    get_attributes,
    get_constant,
    get_operator,
    get_shape,
)
from ptq.model.qdq.qdq_units import QuantizedTensor, find_quantized_result, find_quantized_source
from ptq.rewrite.imported.infer_types import infer_missing_types
from ptq.verification.lint_rules import Finding

_PROVIDER = "XNNPACK provider of ONNX Runtime"
_SOFTMAX_SCALE_TOLERANCE = 1e-4


def check_xnnpack(graph: Graph) -> Iterator[Finding]:
    """A finding for each quantized node that the provider does not take, in graph order."""
    for node, reason in explain_xnnpack_placement(graph):
        if reason:
            mixed = reason.startswith("uint8 activations with int8")
            yield Finding(
                tensor=node.outputs[0].name or "",
                node=node.name or "",
                rule="types" if mixed else "placement",
                clause=f"{_PROVIDER}: {get_operator(node)}",
                text=f"it does not take the node: {reason}",
                severity="error" if mixed else "note",
            )


def explain_xnnpack_placement(graph: Graph) -> Iterator[tuple[Node, str]]:
    """Every node between quantizers, with the reason why the provider does not take it; empty if it does."""
    known = graph.copy()
    infer_missing_types(known)
    for node in known.nodes:
        x = find_quantized_source(node.inputs[0]) if node.inputs else None
        if get_operator(node) in QUANTIZERS or x is None:
            continue
        y = find_quantized_result(node.outputs[0])
        check = _CHECKS.get(get_operator(node))
        if check is None:
            yield node, f"it has no integer kernel for {get_operator(node)}"
        elif y is None:
            yield node, "the output is float"
        elif x.params.qtype.signed != y.params.qtype.signed:
            yield node, "input and output have different integer types"
        else:
            yield node, check(node, x, y)


def _check_convolution(node: Node, x: QuantizedTensor, y: QuantizedTensor) -> str:
    weight, bias = find_quantized_source(node.inputs[1]), _get_input(node, 2)
    array = None if weight is None else get_constant(weight.integers)
    if weight is None or array is None:
        return "the weight is not a constant of integers"
    if array.ndim != 4:
        return f"the weight has {array.ndim} axes, not 4"
    signs = (x.params.qtype.signed, weight.params.qtype.signed)
    if signs[0] != signs[1]:
        names = ["uint8", "int8"] if not signs[0] else ["int8", "uint8"]
        return f"{names[0]} activations with {names[1]} weights"
    by_channel = weight.params.axis is not None
    if by_channel and not signs[0]:
        return "uint8 weights have scales by channel"
    if by_channel and get_operator(node) == "ConvTranspose":
        return "a transposed convolution has scales by channel"
    if by_channel and weight.params.zero_point.any():
        return "weights with scales by channel have zero points"
    if bias is not None and find_quantized_source(bias) is None:
        return "the bias is float"
    group, channels = (
        int(get_attributes(node).get("group", 1)),
        (get_shape(x.integers) or (0, 0))[1],
    )
    if group not in (1, channels):
        return f"{group} groups: neither 1 nor one for each channel"
    return _check_size(x)


def _check_average_pool(node: Node, x: QuantizedTensor, y: QuantizedTensor) -> str:
    if x.params.qtype.signed:
        return "average pools of int8 are not taken, only of uint8"
    if not get_attributes(node).get("count_include_pad", 0):
        return "padding is not counted"
    return _check_size(x) or _check_pool(node)


def _check_max_pool(node: Node, x: QuantizedTensor, y: QuantizedTensor) -> str:
    if x.params != y.params:
        return "input and output have different scales"
    return _check_size(x) or _check_pool(node)


def _check_softmax(node: Node, x: QuantizedTensor, y: QuantizedTensor) -> str:
    if x.params.qtype.signed:
        return "Softmax of int8 is not taken, only of uint8"
    if abs(float(np.max(y.params.scale)) - 1 / 256) > _SOFTMAX_SCALE_TOLERANCE:
        return "the output's scale is not 1/256"
    if y.params.zero_point.any():
        return "the output's zero point is not 0"
    shape = get_shape(x.integers)
    axis = int(get_attributes(node).get("axis", -1))
    if shape is None or axis not in (-1, len(shape) - 1) or shape[-1] is None:
        return "it runs along another axis than the last one, or this one has no fixed size"
    return ""


def _check_resize(node: Node, x: QuantizedTensor, y: QuantizedTensor) -> str:
    if get_attributes(node).get("mode", "nearest") != "linear":
        return "only linear interpolation is taken"
    return _check_size(x)


def _check_pool(node: Node) -> str:
    attrs = get_attributes(node)
    if attrs.get("ceil_mode", 0):
        return "sizes are rounded up (ceil_mode)"
    if attrs.get("auto_pad", "NOTSET") == "SAME_LOWER":
        return "padding is SAME_LOWER"
    kernel = tuple(attrs.get("kernel_shape", ()))
    return "the kernel is not two-dimensional, or 1 × 1" if kernel in ((1, 1), ()) else ""


def _check_size(x: QuantizedTensor) -> str:
    shape = get_shape(x.integers)
    if shape is None or len(shape) != 4:
        return "the input does not have 4 axes of known size"
    return "channels, height or width have no fixed size" if None in shape[1:] else ""


def _get_input(node: Node, position: int) -> Value | None:
    return node.inputs[position] if position < len(node.inputs) else None


_CHECKS: Mapping[str, Callable[[Node, QuantizedTensor, QuantizedTensor], str]] = {
    "AveragePool": _check_average_pool,
    "Conv": _check_convolution,
    "ConvTranspose": _check_convolution,
    "MaxPool": _check_max_pool,
    "Resize": _check_resize,
    "Softmax": _check_softmax,
}
