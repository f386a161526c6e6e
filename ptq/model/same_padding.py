"""Padding SAME: as many windows as strides start in the image."""

from __future__ import annotations


def count_same_pads(size: int, window: int, stride: int) -> int:
    """Elements that padding SAME adds along an axis: max((⌈size / stride⌉ − 1) · stride + window − size, 0).

    Args:
        size: Elements along the axis.
        window: Elements that a window spans, with dilation.
        stride: Elements between the beginnings of two windows.
    """
    return max((-(-size // stride) - 1) * stride + window - size, 0)
