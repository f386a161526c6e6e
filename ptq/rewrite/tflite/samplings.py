"""The sampling of LiteRT's resizing operators that takes the same positions as an ONNX Resize."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from ptq.kernels.resize import (
    LitertSampling,
    OnnxSampling,
    ResizeAxis,
    matching_litert_sampling,
)
from ptq.rewrite.tflite.operations import Operation


def find_sampling(
    o: Operation,
    shape: Sequence[int],
    result: Sequence[int],
    scales: NDArray[Any] | None,
) -> LitertSampling | None:
    """LiteRT's sampling; None if it has none that takes these positions.

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
        None if o.op == "Resize linear" else _text(o.attrs, "nearest_mode", "round_prefer_floor")
    )
    mode = _text(o.attrs, "coordinate_transformation_mode", "half_pixel")
    return matching_litert_sampling(OnnxSampling(mode, nearest), image)


def _text(attrs: Any, name: str, default: str) -> str:
    value = attrs.get(name, default)
    return value.decode() if isinstance(value, bytes) else str(value)
