"""Pools, padding, resizing and regrouping of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.rewrite.tflite.emitter import Emitter
from ptq.rewrite.tflite.images import add_temporary_image, pad_image, read_image, write_image
from ptq.rewrite.tflite.measured_shapes import DependsOnBatchError
from ptq.rewrite.tflite.operations import Operation
from ptq.rewrite.tflite.orders import (
    is_image_operator,
    order_channels_last,
    order_naturally,
    permute_shape,
)
from ptq.rewrite.tflite.samplings import find_sampling
from ptq.rewrite.tflite.windows import read_averages, read_window


def write_pool(e: Emitter, o: Operation) -> None:
    """AVERAGE_POOL_2D or MAX_POOL_2D."""
    x, y = str(o.inputs[0]), o.outputs[0]
    if e.rank(x) not in (3, 4) or any(d != 1 for d in o.attrs.get("dilations", ())):
        raise UnsupportedError(
            f"{o.op} {o.name} has dilations or more than two spatial axes; LiteRT's pools have none"
        )
    if len(o.outputs) > 1 and o.outputs[1]:
        raise UnsupportedError(f"{o.op} {o.name} returns positions; LiteRT's pools do not")
    kernel = [int(k) for k in o.attrs["kernel_shape"]]
    spatial = e.shape(x)[2:], e.shape(y)[2:]
    filling: float | None = None
    if o.op == "MaxPool":
        window, counts = read_window(o.attrs, kernel, *spatial), None
        dtype = e.dtype(x)
        filling = float(np.iinfo(dtype).min if dtype.kind == "i" else np.finfo(dtype).min)
    else:
        averages = read_averages(o.attrs, kernel, *spatial)
        window, counts = averages.window, averages.counts
    if counts is not None:
        e.require_float(o, "no average on integers of windows that are padded like these")
    source = pad_image(e, x, read_image(e, x), window.pads, filling)
    sizes, strides = ((1, *s)[-2:] for s in (window.kernel, window.strides))
    with write_image(e, y) as result:
        pooled = result if counts is None else add_temporary_image(e, y, "means")
        e.op(
            "MAX_POOL_2D" if o.op == "MaxPool" else "AVERAGE_POOL_2D",
            [source], [pooled], "Pool2DOptions",
            padding=e.model.number_of("Padding", window.padding),
            filterHeight=sizes[0], filterWidth=sizes[1], strideH=strides[0], strideW=strides[1],
            fusedActivationFunction=0 if counts else e.activation(o),
        )  # fmt: skip
        if counts is not None:
            factors = e.literal(_compute_kernel_share(window.kernel, counts), f"{y}_factors")
            activation = e.activation(o)
            e.op(
                "MUL", [pooled, factors], [result], "MulOptions", fusedActivationFunction=activation
            )


def _compute_kernel_share(
    kernel: Sequence[int], counts: Sequence[Sequence[int]]
) -> NDArray[np.float32]:
    """Elements of the kernel by those that each window averages, shape (1, H, W, 1)."""
    shares = [k / np.asarray(c, np.float64) for k, c in zip(kernel, counts, strict=True)]
    height, width = [np.ones(1), *shares][-2:]
    return np.outer(height, width)[None, :, :, None].astype(np.float32)


def write_resize(e: Emitter, o: Operation) -> None:
    """RESIZE_BILINEAR or RESIZE_NEAREST_NEIGHBOR, where one of LiteRT's samplings takes the same positions."""
    x, y = str(o.inputs[0]), o.outputs[0]
    shape, result = e.shape(x), e.shape(y)
    given = o.inputs[2] if len(o.inputs) > 2 else None
    scales = e.constant(given)
    if given is not None and scales is None:
        raise UnsupportedError(f"Resize {o.name} computes its factors; LiteRT needs constants")
    sampling = find_sampling(o, shape, result, scales) if len(shape) == 4 else None
    if sampling is None or shape[:2] != result[:2]:
        raise UnsupportedError(
            f"Resize {o.name} has antialias, keep_aspect_ratio_policy or positions that LiteRT does not have"
        )
    order = order_channels_last(4)
    size = e.integers(result[2:], f"{y}_size")
    builtin, options = (
        ("RESIZE_BILINEAR", "ResizeBilinearOptions")
        if o.op == "Resize linear"
        else ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions")
    )
    e.op(
        builtin, [e.read(x, order), size], [e.write(y, order)], options,
        alignCorners=sampling.align_corners, halfPixelCenters=sampling.half_pixel_centers,
    )  # fmt: skip


def write_depth_to_space(e: Emitter, o: Operation) -> None:
    """DEPTH_TO_SPACE; mode CRD first sorts the channels."""
    x, y, block = str(o.inputs[0]), o.outputs[0], int(o.attrs["blocksize"])
    order = order_channels_last(4)
    source = e.read(x, order)
    mode: Any = o.attrs.get("mode", "DCR")
    if mode in ("CRD", b"CRD"):
        channels = e.shape(x)[1]
        sorted_channels = np.arange(channels).reshape(-1, block, block).transpose(1, 2, 0).ravel()
        grouped = e.temporary(
            f"{x}_sorted", permute_shape(e.shape(x), order), e.dtype(x), e.params(x),
            signature=permute_shape(e.signature(x), order),
        )  # fmt: skip
        positions = e.integers(sorted_channels, f"{x}_channels")
        e.op("GATHER", [source, positions], [grouped], "GatherOptions", axis=3, batchDims=0)
        source = grouped
    e.op("DEPTH_TO_SPACE", [source], [e.write(y, order)], "DepthToSpaceOptions", blockSize=block)


def write_space_to_depth(e: Emitter, o: Operation) -> None:
    """SPACE_TO_DEPTH."""
    x, y, order = str(o.inputs[0]), o.outputs[0], order_channels_last(4)
    e.op(
        "SPACE_TO_DEPTH", [e.read(x, order)], [e.write(y, order)], "SpaceToDepthOptions",
        blockSize=int(o.attrs["blocksize"]),
    )  # fmt: skip


def write_global_pool(e: Emitter, o: Operation) -> None:
    """MEAN or REDUCE_MAX over the spatial axes; of three axes in the stored order."""
    x, y = str(o.inputs[0]), o.outputs[0]
    rank = e.rank(x)
    order = (
        order_channels_last(rank)
        if is_image_operator(o.op, rank)
        else e.order(x) or order_naturally(rank)
    )
    axes = e.integers(sorted(order.index(a) for a in range(2, rank)), f"{y}_axes")
    builtin = "MEAN" if o.op == "GlobalAveragePool" else "REDUCE_MAX"
    e.op(builtin, [e.read(x, order), axes], [e.write(y, order)], "ReducerOptions", keepDims=True)


def write_pad(e: Emitter, o: Operation) -> None:
    """PAD, PADV2 or MIRROR_PAD."""
    x, y = str(o.inputs[0]), o.outputs[0]
    order = e.order(x) or order_channels_last(e.rank(x))
    amounts = o.attrs.get("pads")
    if amounts is None:
        amounts = e.constant(o.inputs[1] if len(o.inputs) > 1 else None)
    if amounts is None:
        raise UnsupportedError(f"Pad {o.name} computes its amounts; LiteRT needs constants")
    given = o.attrs.get("axes")
    if given is None:
        given = e.constant(o.inputs[3] if len(o.inputs) > 3 else None)
    rank = e.rank(x)
    axes = range(rank) if given is None else [int(a) % rank for a in np.atleast_1d(given)]
    begins, ends = np.asarray(amounts, np.int64).reshape(2, -1)
    paddings = np.zeros((rank, 2), np.int64)
    for axis, begin, end in zip(axes, begins, ends, strict=True):
        paddings[axis] = begin, end
    if paddings.min(initial=0) < 0:
        raise UnsupportedError(f"Pad {o.name} crops; LiteRT's PAD does not: use a Slice")
    if paddings[0].any() and e.signature(x)[0] == -1:
        raise DependsOnBatchError(f"Pad {o.name} pads the batch")
    stored = e.integers(paddings[list(order)], f"{y}_paddings")
    source, mode = e.read(x, order), o.attrs.get("mode", "constant")
    mode = mode.decode() if isinstance(mode, bytes) else mode
    if mode == "reflect":
        reflect = e.model.number_of("MirrorPadMode", "REFLECT")
        e.op("MIRROR_PAD", [source, stored], [e.write(y, order)], "MirrorPadOptions", mode=reflect)
        return
    if mode != "constant":
        raise UnsupportedError(f"Pad {o.name} of mode {mode} has no form in LiteRT")
    real, params = float(np.asarray(o.attrs.get("value", 0.0)).reshape(())), e.params(x)
    if real == 0:
        e.op("PAD", [source, stored], [e.write(y, order)], "PadOptions")
        return
    filling = (
        np.asarray([real], e.dtype(x))
        if params is None
        else params.quantize(np.asarray([real], np.float32))
    )
    constant = e.literal(filling, f"{y}_filling", params)
    e.op("PADV2", [source, stored, constant], [e.write(y, order)], "PadV2Options")
