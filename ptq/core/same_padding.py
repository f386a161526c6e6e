"""Padding SAME: as many windows as strides start in the image.

total = max((⌈size / stride⌉ − 1) · stride + window − size, 0)
"""

from __future__ import annotations


def compute_same_pads(
    size: int, window: int, stride: int, *, lower: bool = False, may_crop: bool = False
) -> tuple[int, int]:
    """Elements that padding SAME adds before and behind an axis.

    Args:
        size: Elements along the axis.
        window: Elements that a window spans, with dilation.
        stride: Elements between the beginnings of two windows.
        lower: Whether the larger half of an odd total comes first.
        may_crop: Whether a total below 0 is divided too, as in ONNX Runtime's pools, instead of being 0.
    """
    total = (-(-size // stride) - 1) * stride + window - size
    return split_same_pads(total if may_crop else max(total, 0), lower=lower)


def split_same_pads(total: int, *, lower: bool) -> tuple[int, int]:
    """Divide a total of pads into those before and behind an axis; ``lower`` puts the larger half first."""
    begin = int((total + lower) / 2)
    return begin, total - begin
