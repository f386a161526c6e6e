"""The sampling of LiteRT's resizing operators that takes the same positions as an ONNX Resize."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.kernels.resize import LitertSampling, OnnxSampling, ResizeAxis, find_litert_sampling
from ptq.model.axes import resize_unsupported_reason
from ptq.rewrite.tflite.operations import Operation


def find_sampling(
    o: Operation,
    shape: Sequence[int],
    result: Sequence[int],
    scales: NDArray[Any] | None,
) -> LitertSampling | None:
    """LiteRT's sampling; None if it has none that takes these positions, or the Resize does more than sample.

    Mode ``half_pixel_symmetric`` moves the positions of ``half_pixel`` by what rounding takes from an output length:
    by nothing where factor times length is whole.

    Args:
        o: A Resize.
        shape: Shape of its input.
        result: Shape of its output.
        scales: Its factors, one for each axis that it names; None if it has sizes.
    """
    axes = [int(a) % len(shape) for a in o.attrs.get("axes", range(len(shape)))]
    factors = [n / m for n, m in zip(result, shape, strict=True)]
    if scales is not None and scales.size:
        for axis, scale in zip(axes, scales.ravel(), strict=True):
            factors[axis] = float(scale)
    image = [ResizeAxis(shape[i], result[i], factors[i]) for i in (2, 3)]
    nearest = (
        None
        if o.op == "Resize linear"
        else _get_text(o.attrs, "nearest_mode", "round_prefer_floor")
    )
    mode = _get_text(o.attrs, "coordinate_transformation_mode", "half_pixel")
    if mode == "half_pixel_symmetric" and all(_is_whole(axis) for axis in image):
        mode = "half_pixel"
    if resize_unsupported_reason({**o.attrs, "coordinate_transformation_mode": mode}):
        return None
    return find_litert_sampling(OnnxSampling(mode, nearest), image)


def _is_whole(axis: ResizeAxis) -> bool:
    """Whether no output length is rounded, in float32 as in ONNX Runtime."""
    return bool(np.float32(axis.scale) * np.float32(axis.size) == axis.output_size)


def _get_text(attrs: Any, name: str, default: str) -> str:
    value = attrs.get(name, default)
    return value.decode() if isinstance(value, bytes) else str(value)
