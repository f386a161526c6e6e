"""Zero points of activations that move into the biases of the layers that read them.

With integers q, scale S, zero point Z and weights W a layer computes Σ W · S (q − Z) + b. This is

    Σ W · S q + b',   b' = b − S Z Σ W

so its DequantizeLinear may have zero point 0, while the QuantizeLinear keeps Z. The integers are the same; only the
rounding of b' in float32 differs.

Measured in OpenVINO 2026.4 with AMX and VNNI: integer kernels that subtract a zero point are slower. A vision
transformer takes 10 to 19 % less time without, EfficientNet-Lite0 8 %. Padding adds 0, which would be −S Z then, so
padded layers keep their zero point. So do other kernels than 1 × 1: on small images OpenVINO has a faster kernel with
zero points for them (MTCNN's refinement: 10 % slower without).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.opspec import WEIGHT_INPUT
from ptq.core.types import FLOAT32
from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    Value,
    get_attributes,
    get_constant,
    get_name,
    get_operator,
    list_consumers,
)
from ptq.model.qdq.qdq_units import QuantizedTensor, find_quantized_source
from ptq.model.weights.layer_weights import count_output_channels, get_channel_axis


def move_zero_points_into_biases(graph: Graph) -> None:
    """Give DequantizeLinear nodes of uint8 activations zero point 0, in place.

    All layers that read one must allow it: pointwise Conv without padding, Gemm, and MatMul with an Add behind it.
    They have a quantized weight and a constant bias. Conv and Gemm may be without one.
    """
    for dequantizer in list(graph.nodes):
        real = dequantizer.outputs[0] if get_operator(dequantizer) == "DequantizeLinear" else None
        source = find_quantized_source(real)
        if real is None or source is None or not _has_zero_point(source):
            continue
        layers = list_consumers(real)
        if not layers or real.is_graph_output() or not all(_can_fold(n, real) for n in layers):
            continue
        for layer in layers:
            _move_into_bias(graph, layer, source)
        zero = np.zeros_like(source.params.zero_point).astype(source.params.qtype.dtype)
        dequantizer.replace_input_with(2, graph.add_constant(zero, f"{get_name(real)}_zero"))


def _has_zero_point(source: QuantizedTensor) -> bool:
    """Whether a QuantizeLinear writes uint8 of one scale around a zero point."""
    maker, params = source.integers.producer(), source.params
    return (
        maker is not None
        and get_operator(maker) == "QuantizeLinear"
        and params.axis is None
        and params.qtype.dtype == np.uint8
        and bool(params.zero_point)
    )


def _find_weight_integers(layer: Node) -> NDArray[Any] | None:
    weight = (
        find_quantized_source(layer.inputs[WEIGHT_INPUT])
        if len(layer.inputs) > WEIGHT_INPUT
        else None
    )
    return None if weight is None else get_constant(weight.integers)


def _find_bias_holder(layer: Node, weight: NDArray[Any]) -> Node | None:
    """The node that adds the layer's bias: itself, or the Add behind a MatMul; None if it keeps its zero point."""
    if get_operator(layer) == "Gemm":
        return layer
    if get_operator(layer) == "Conv":
        pointwise = set(weight.shape[2:]) == {1} and not any(get_attributes(layer).get("pads", ()))
        return layer if pointwise else None
    y = layer.outputs[0]
    after = list_consumers(y) if get_operator(layer) == "MatMul" and weight.ndim == 2 else []
    added = len(after) == 1 and get_operator(after[0]) == "Add" and not y.is_graph_output()
    return after[0] if added else None


def _find_bias(layer: Node, holder: Node) -> tuple[int, Value | None]:
    """The input of the holder that is the bias, and the bias if there is one."""
    at = 2 if holder is layer else int(holder.inputs[0] is layer.outputs[0])
    return at, holder.inputs[at] if len(holder.inputs) > at else None


def _can_fold(layer: Node, real: Value) -> bool:
    weight = _find_weight_integers(layer) if layer.inputs[0] is real else None
    holder = None if weight is None else _find_bias_holder(layer, weight)
    if weight is None or holder is None:
        return False
    _, bias = _find_bias(layer, holder)
    array = get_constant(bias)
    if array is None:
        return bias is None
    channels = count_output_channels(layer, weight.shape)
    return array.dtype == FLOAT32 and array.shape == (channels,)


def _move_into_bias(graph: Graph, layer: Node, source: QuantizedTensor) -> None:
    weight, integers = (
        find_quantized_source(layer.inputs[WEIGHT_INPUT]),
        _find_weight_integers(layer),
    )
    assert weight is not None and integers is not None
    holder = _find_bias_holder(layer, integers)
    assert holder is not None
    at, bias = _find_bias(layer, holder)
    real = weight.params.dequantize(integers)
    summed = tuple(axis for axis in range(real.ndim) if axis != get_channel_axis(layer, real.ndim))
    sums: NDArray[np.float64] = real.sum(axis=summed, dtype=np.float64)
    before = get_constant(bias)
    old = 0.0 if before is None else before.astype(np.float64)
    offset = float(source.params.scale) * int(source.params.zero_point)
    moved = (old - offset * sums).astype(np.float32)
    hint = f"{layer.name}_bias" if bias is None else get_name(bias)
    if holder is layer:
        holder.resize_inputs(3)
    holder.replace_input_with(at, graph.add_constant(moved, f"{hint}_without_zero_point"))
