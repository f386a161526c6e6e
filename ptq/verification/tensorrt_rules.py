"""Rules of TensorRT's ONNX importer and of its guide to explicit quantization, for a model of any tool.

The importer's rules come from its operator table (onnx-tensorrt, docs/operators.md): a model that breaks one is
refused, so it is an error. The guide's rules ("Working with Quantized Types", section on the placement of quantizers)
say which quantizers keep layers from being fused, so each finding is a note. TensorRT itself does not run here.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ptq.core.ops import QLINEAR_FORMS
from ptq.model.graph import Graph
from ptq.model.node import (
    QUANTIZERS,
    Node,
    Value,
    get_attributes,
    get_constant,
    get_dtype,
    get_name,
    get_operator,
    list_consumers,
)
from ptq.model.weights.layer_weights import get_channel_axis
from ptq.verification.lint_rules import Finding

PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
"""Operators that TensorRT computes on integers."""
FUSED_ACTIVATIONS = frozenset(
    ["Clip", "Elu", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "PRelu", "Relu", "Sigmoid", "Tanh"]
)  # fmt: skip
"""Activations that become part of the layer before them."""
_IMPORTER = "onnx-tensorrt operator table"
_GUIDE = "TensorRT guide, placement of quantizers"
_OTHER_INTEGER_OPS = ("ConvInteger", "DynamicQuantizeLinear", "MatMulInteger")
_MIN_OPSET_PER_CHANNEL = 13


def check_tensorrt(graph: Graph) -> Iterator[Finding]:
    """Findings in graph order: errors of the importer's rules, notes of the guide's."""
    for node in graph.nodes:
        op = get_operator(node)
        if op in QUANTIZERS:
            yield from _check_quantizer(graph, node)
            yield from _check_placement(node)
        elif op in QLINEAR_FORMS or op in _OTHER_INTEGER_OPS:
            text = f"{op} is not imported; give a model with QuantizeLinear and DequantizeLinear"
            yield _build_error(node, "operator", op, text)
    for output in graph.outputs:
        maker = output.producer()
        if maker is not None and get_operator(maker) == "DequantizeLinear":
            text = "the output is rounded to integers and read back; leave outputs float"
            yield _build_note(maker, "quantized-output", text)


def _check_quantizer(graph: Graph, node: Node) -> Iterator[Finding]:
    """The importer's rules for one QuantizeLinear or DequantizeLinear."""
    op = node.op_type
    if node.domain not in ("", "ai.onnx"):
        yield _build_error(node, "domain", op, f"{op} of domain {node.domain} is not imported")
    integers = node.inputs[0] if op == "DequantizeLinear" else node.outputs[0]
    zero_point = node.inputs[2] if len(node.inputs) > 2 else None
    dtype = get_dtype(zero_point) if zero_point is not None else None
    dtype = dtype or (None if integers is None else get_dtype(integers))
    if dtype is not None and dtype != np.int8:
        what = "bias" if dtype == np.int32 else "tensor"
        advice = "leave biases float" if dtype == np.int32 else "use int8"
        yield _build_error(node, "type", op, f"a {what} of {dtype} is not imported; {advice}")
    zeros = get_constant(zero_point)
    if zero_point is not None and zeros is None:
        yield _build_error(node, "zero-point", op, "the zero point is not constant")
    elif zeros is not None and dtype == np.int8 and zeros.any():
        value = int(zeros.reshape(-1)[np.flatnonzero(zeros)[0]])
        yield _build_error(node, "zero-point", op, f"zero point {value}; it must be 0")
    scale = get_constant(node.inputs[1])
    if scale is None:
        yield _build_error(node, "scale", op, "the scale is not constant")
    elif scale.size > 1:
        yield from _check_channels(graph, node, scale.size, integers)


def _check_channels(
    graph: Graph, node: Node, channels: int, integers: Value | None
) -> Iterator[Finding]:
    op = node.op_type
    array = get_constant(integers) if op == "DequantizeLinear" else get_constant(node.inputs[0])
    if array is None:
        text = f"{channels} scales for an activation; it must have one"
        yield _build_error(node, "per-channel", op, text)
        return
    if graph.opset < _MIN_OPSET_PER_CHANNEL:
        text = f"scales by channel need opset {_MIN_OPSET_PER_CHANNEL}, the model has {graph.opset}"
        yield _build_error(node, "opset", op, text)
    axis = int(get_attributes(node).get("axis", 1)) % array.ndim
    for reader in list_consumers(node.outputs[0]):
        if get_operator(reader) in PRODUCTS and reader.inputs[1] is node.outputs[0]:
            wanted = get_channel_axis(reader, array.ndim)
            if wanted is not None and wanted != axis:
                text = f"scales along axis {axis}, not along the output channels, axis {wanted}"
                yield _build_error(node, "per-channel", op, text)


def _check_placement(node: Node) -> Iterator[Finding]:
    """The guide's rules for a quantizer behind a layer."""
    value = node.inputs[0]
    maker = value.producer() if value is not None else None
    if get_operator(node) != "QuantizeLinear" or value is None or maker is None:
        return
    if get_operator(maker) not in PRODUCTS:
        return
    readers = [
        reader
        for back in list_consumers(node.outputs[0])
        for reader in list_consumers(back.outputs[0])
    ]
    ops = {get_operator(reader) for reader in readers}
    if ops and ops <= FUSED_ACTIVATIONS:
        text = (
            f"a quantizer between {get_operator(maker)} and {min(ops)} keeps them from being fused"
        )
        yield _build_note(node, "before-activation", text)
    sums = [reader for reader in readers if get_operator(reader) == "Add"]
    if sums and len(readers) == 1 and not _has_float_input(sums[0]):
        text = f"both inputs of Add {get_name(sums[0].outputs[0])} are quantized; only the residual should be"
        yield _build_note(node, "residual", text)


def _has_float_input(node: Node) -> bool:
    makers = [value.producer() if value is not None else None for value in node.inputs]
    return any(maker is None or get_operator(maker) != "DequantizeLinear" for maker in makers)


def _build_error(node: Node, rule: str, op: str, text: str) -> Finding:
    return Finding(_name_tensor(node), node.name or "", rule, f"{_IMPORTER}: {op}", text, "error")


def _build_note(node: Node, rule: str, text: str) -> Finding:
    return Finding(_name_tensor(node), node.name or "", rule, _GUIDE, text, "note")


def _name_tensor(node: Node) -> str:
    return node.outputs[0].name or ""
