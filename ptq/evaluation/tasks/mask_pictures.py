"""Masks of two forms as pictures to lay over the image; pixels that differ are opaque."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.data.formats.thumbnail import draw_mask
from ptq.evaluation.tasks.segment import SegmentTask
from ptq.evaluation.tasks.task import Arrays


def draw_masks(task: SegmentTask, before: Arrays, after: Arrays) -> tuple[bytes, bytes]:
    """PNG files of the masks of one image; no bytes if there is not one image or the shapes differ.

    Args:
        task: The task.
        before: Outputs of the float model on one sample.
        after: Outputs of the other form.
    """
    one, other = find_mask(task, before), find_mask(task, after)
    if one is None or other is None or one.shape != other.shape:
        return b"", b""
    changed = one != other
    one, other = (np.maximum(mask, 0) for mask in (one, other))  # no class is drawn as class 0
    return draw_mask(one, changed), draw_mask(other, changed)


def find_mask(task: SegmentTask, outputs: Arrays) -> NDArray[np.int64] | None:
    """The class of each pixel, `NO_CLASS` of NaN alone, shape (height, width); None if this is not one image."""
    output = outputs[task.output]
    sides: list[Any] = [n for k, n in enumerate(output.shape) if k != task.axis]
    if len(sides) < 2 or np.prod(sides[:-2]) != 1:
        return None
    return task.decode(output).reshape(sides[-2:])
