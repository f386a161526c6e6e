"""Convolutions and matrix products.

    Conv            CONV_2D, weight O·H·W·I; DEPTHWISE_CONV_2D, weight 1·H·W·O, where each channel is a group
    ConvTranspose   TRANSPOSE_CONV, weight O·H·W·I
    Gemm            FULLY_CONNECTED, weight O·I
    MatMul          FULLY_CONNECTED by a constant matrix, else BATCH_MATMUL

A one-dimensional convolution is one of images of height 1. Scales of weights run along O: dimension 0, or 3 for
depthwise weights. A bias has the scale of the products, and 32 bits; 64 where activations have 16.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.core.types import INT32, INT64, QuantParams
from ptq.rewrite.tflite.emitter import Emitter
from ptq.rewrite.tflite.images import pad_image, read_image, write_image
from ptq.rewrite.tflite.measured_shapes import DependsOnBatchError
from ptq.rewrite.tflite.operations import FUSED, Operation
from ptq.rewrite.tflite.orders import order_channels_last, order_naturally
from ptq.rewrite.tflite.windows import read_transposed_begins, read_window


def _get_weight(e: Emitter, o: Operation) -> NDArray[Any]:
    array = e.constant(o.inputs[1])
    if array is None:
        raise UnsupportedError(
            f"{o.op} {o.name} has a weight that is computed; LiteRT's are constants"
        )
    return array


def _write_bias(e: Emitter, o: Operation, channels: int) -> int:
    """The bias; zeros if the node has none."""
    name = o.inputs[2] if len(o.inputs) > 2 else None
    params = _compute_bias_qparams(e, o) if o.is_integer else None
    array = e.constant(name)
    if name is not None and array is None:
        raise UnsupportedError(
            f"{o.op} {o.name} has a bias that is computed; LiteRT's are constants"
        )
    if array is None:
        array = np.zeros(channels, np.int32 if o.is_integer else np.float32)
    array = np.broadcast_to(array.reshape(-1), (channels,))
    if params is not None:
        array = array.astype(params.qtype.dtype)
    return e.literal(array, name or f"{o.outputs[0]}_bias", params, 0)


def _compute_bias_qparams(e: Emitter, o: Operation) -> QuantParams:
    x, w = e.params(str(o.inputs[0])), e.params(str(o.inputs[1]))
    assert x is not None and w is not None
    scale = np.asarray(x.scale * w.scale, np.float32)
    kind = INT32 if x.qtype.bits == 8 else INT64
    return QuantParams(scale, np.zeros(scale.shape, np.int64), kind, 0 if scale.ndim else None)


def write_conv(e: Emitter, o: Operation) -> None:
    """CONV_2D or DEPTHWISE_CONV_2D."""
    weight, group = _get_weight(e, o), int(o.attrs.get("group", 1))
    if weight.ndim not in (3, 4):
        raise UnsupportedError(
            f"Conv {o.name} has {weight.ndim - 2} spatial axes; LiteRT's convolutions have 2"
        )
    x, y = str(o.inputs[0]), o.outputs[0]
    image, output = e.shape(x)[2:], e.shape(y)[2:]
    window = read_window(o.attrs, weight.shape[2:], image, output)
    source = pad_image(e, x, read_image(e, x), window.pads)
    if weight.ndim == 3:
        weight = weight[:, :, None]
    strides, dilations = ((1, *s)[-2:] for s in (window.strides, window.dilations))
    channels = e.shape(x)[1]
    depthwise = group == channels and weight.shape[1] == 1 and group > 1
    params = e.params(str(o.inputs[1]))
    layout, axis = ((1, 2, 3, 0), 3) if depthwise else ((0, 2, 3, 1), 0)
    stored = weight.transpose(layout)
    inputs = [
        source,
        e.literal(stored, str(o.inputs[1]), params, axis),
        _write_bias(e, o, len(weight)),
    ]
    fields: dict[str, Any] = {
        "padding": e.model.number_of("Padding", window.padding),
        "strideH": strides[0],
        "strideW": strides[1],
        "dilationHFactor": dilations[0],
        "dilationWFactor": dilations[1],
        "fusedActivationFunction": e.activation(o),
    }
    with write_image(e, y) as result:
        if depthwise:
            e.op(
                "DEPTHWISE_CONV_2D", inputs, [result], "DepthwiseConv2DOptions",
                depthMultiplier=len(weight) // channels, **fields,
            )  # fmt: skip
        else:
            e.op("CONV_2D", inputs, [result], "Conv2DOptions", **fields)


def write_conv_transpose(e: Emitter, o: Operation) -> None:
    """TRANSPOSE_CONV; its padding follows from the output's shape. A SLICE cuts off any other padding."""
    weight, x, y = _get_weight(e, o), str(o.inputs[0]), o.outputs[0]
    dilated = any(d != 1 for d in o.attrs.get("dilations", ()))
    if weight.ndim != 4 or int(o.attrs.get("group", 1)) != 1 or dilated:
        raise UnsupportedError(
            f"ConvTranspose {o.name} has groups, dilations or not two spatial axes; LiteRT has no such operator"
        )
    if e.signature(y)[0] == -1:
        raise DependsOnBatchError(f"TRANSPOSE_CONV states the batch of its output ({o.name})")
    strides = tuple(int(s) for s in o.attrs.get("strides", (1, 1)))
    image, output, kernel = e.shape(x)[2:], e.shape(y)[2:], weight.shape[2:]
    begins = read_transposed_begins(o.attrs, kernel, image, output)
    full = [
        max((size - 1) * s + k, begin + out)
        for size, s, k, begin, out in zip(image, strides, kernel, begins, output, strict=True)
    ]
    padding = _find_transposed_padding(strides, kernel, image, output, begins)
    cuts = padding is None
    padding = padding or _find_transposed_padding(strides, kernel, image, full, [0, 0])
    if padding is None:
        raise UnsupportedError(
            f"ConvTranspose {o.name} has padding that LiteRT's TRANSPOSE_CONV does not have"
        )
    batch, channels = e.shape(y)[:2]
    shape = (batch, *(full if cuts else output), channels)
    order = order_channels_last(4)
    stored = e.literal(
        weight.transpose(1, 2, 3, 0), str(o.inputs[1]), e.params(str(o.inputs[1])), 0
    )
    inputs = [
        e.integers(shape, f"{y}_shape"), stored, e.read(x, order), _write_bias(e, o, weight.shape[1]),
    ]  # fmt: skip
    result = e.write(y, order)
    product = e.temporary(f"{y}_full", shape, e.dtype(y), e.params(y)) if cuts else result
    e.op(
        "TRANSPOSE_CONV", inputs, [product], "TransposeConvOptions",
        padding=e.model.number_of("Padding", padding),
        strideH=strides[0], strideW=strides[1],
    )  # fmt: skip
    if cuts:
        begin = e.integers([0, *begins, 0], f"{y}_begin")
        size = e.integers([batch, *output, channels], f"{y}_size")
        e.op("SLICE", [product, begin, size], [result], "SliceOptions")


def _find_transposed_padding(
    strides: Sequence[int],
    kernel: Sequence[int],
    image: Sequence[int],
    output: Sequence[int],
    begins: Sequence[int],
) -> str | None:
    """The padding with which TRANSPOSE_CONV cuts off ``begins``: half of what is too much. None if there is none."""
    spans = list(zip(output, image, strides, kernel, begins, strict=True))
    if any(max((n - 1) * s + k - out, 0) // 2 != begin for out, n, s, k, begin in spans):
        return None
    if all(-(-out // s) == n for out, n, s, _, _ in spans):
        return "SAME"
    return "VALID" if all(-(-(out - k + 1) // s) == n for out, n, s, k, _ in spans) else None


def write_gemm(e: Emitter, o: Operation) -> None:
    """FULLY_CONNECTED."""
    weight, x = _get_weight(e, o), str(o.inputs[0])
    alpha, beta = float(o.attrs.get("alpha", 1.0)), float(o.attrs.get("beta", 1.0))
    if o.attrs.get("transA", 0) or ((alpha != 1 or beta != 1) and o.is_integer):
        raise UnsupportedError(
            f"Gemm {o.name} has transA, alpha or beta, which LiteRT does not have"
        )
    stored = weight if o.attrs.get("transB", 0) else weight.T
    if alpha != 1:
        stored = stored * np.float32(alpha)
    _write_fully_connected(e, o, e.read(x, order_naturally(2)), stored, beta=beta)


def _write_fully_connected(
    e: Emitter, o: Operation, source: int, stored: NDArray[Any], *, beta: float = 1.0
) -> None:
    x, y, w = str(o.inputs[0]), o.outputs[0], str(o.inputs[1])
    features = e.features.get(x)
    if features is not None:
        stored = stored[:, features]
    params = e.params(w)
    if params is not None and params.axis is not None:
        params = QuantParams(params.scale, params.zero_point, params.qtype, 0)
    inputs = [source, e.literal(np.ascontiguousarray(stored), w, params, 0)]
    has_bias = len(o.inputs) > 2 and o.inputs[2] is not None
    if has_bias and beta != 1:
        added = e.constant(o.inputs[2])
        assert added is not None
        inputs.append(e.literal(added.reshape(-1) * np.float32(beta), str(o.inputs[2])))
    else:
        inputs.append(_write_bias(e, o, len(stored)) if has_bias else -1)
    e.op(
        "FULLY_CONNECTED", inputs, [e.write(y)], "FullyConnectedOptions",
        fusedActivationFunction=e.activation(o), keepNumDims=e.rank(y) > 2,
    )  # fmt: skip


def write_matmul(e: Emitter, o: Operation) -> None:
    """FULLY_CONNECTED by a constant matrix; BATCH_MATMUL of two activations, or by constant matrices."""
    left, right, y = str(o.inputs[0]), str(o.inputs[1]), o.outputs[0]
    array = e.constant(right)
    if array is not None and array.ndim == 2 and e.rank(left) >= 2:
        _write_fully_connected(e, o, e.read(left, order_naturally(e.rank(left))), array.T)
        return
    if min(e.rank(left), e.rank(right)) < 2:
        raise UnsupportedError(f"MatMul {o.name} of a vector has no form in LiteRT; add an axis")
    assert FUSED not in o.attrs  # BATCH_MATMUL has no fused activation
    inputs = [e.read(name, order_naturally(e.rank(name))) for name in (left, right)]
    e.op("BATCH_MATMUL", inputs, [e.write(y)], "BatchMatMulOptions", adjX=False, adjY=False)
