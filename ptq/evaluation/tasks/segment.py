"""Task ``segment``: a class for each pixel."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ptq.evaluation.metrics import NO_CLASS, find_best_classes
from ptq.evaluation.tasks.task import (
    Arrays,
    Counts,
    CountsMeter,
    Example,
    Found,
    Ratio,
    TaskMeter,
    TaskRequest,
    is_distribution,
)

MIN_SIDE = 8
MAX_CLASSES = 256
MIN_DECIDED = 0.8
"""Share of the values of a mask from 0 to 1 that are below 0.1 or above 0.9; a depth map has fewer."""
MIN_COHERENT = 0.9
"""Share of neighbouring pixels with equal best class; maps of features have fewer."""
_MASKS = re.compile(r"seg|mask", re.IGNORECASE)
THRESHOLD = 0.5
"""Of a mask of one class with values from 0 to 1; 0 is the threshold of its logits."""


@dataclass(frozen=True)
class SegmentTask:
    """Gives a class for each pixel.

    Attributes:
        output: Name of the output: scores by class, one mask, or classes.
        classes: Number of classes; 2 for one mask.
        axis: Axis of the classes; None if the output holds classes.
        threshold: Of a mask of one class.
    """

    output: str
    classes: int
    axis: int | None = 1
    threshold: float = THRESHOLD
    name: Literal["segment"] = "segment"
    metric: str = "agreement of pixels"

    @property
    def ratios(self) -> Sequence[Ratio]:
        """Intersection over union with the float masks, averaged over the classes that occur."""
        return (Ratio("mean IoU with float masks", partial(_compute_mean_iou, self.classes)),)

    def decode(self, output: NDArray[Any]) -> NDArray[np.int64]:
        """The class of each pixel, flat; `NO_CLASS` of NaN alone."""
        if self.axis is None:
            return np.clip(output.reshape(-1).astype(np.int64), 0, self.classes - 1)
        if output.shape[self.axis] > 1:
            return np.minimum(find_best_classes(output, self.axis), self.classes - 1).reshape(-1)
        above = (output > self.threshold).astype(np.int64)
        return np.where(np.isnan(output), NO_CLASS, above).reshape(-1)

    def shows_classes(self, output: NDArray[Any]) -> bool:
        """Whether the name or the values show that these are classes of pixels."""
        named = _MASKS.search(self.output) is not None
        return named or self.axis is None or is_distribution(output, self.axis)

    def describe_output(self, output: NDArray[Any]) -> str:
        """What the output holds."""
        if self.axis is None:
            return "the class of each pixel"
        return "one mask" if output.shape[self.axis] == 1 else f"{self.classes} classes of pixels"

    def compare(self, reference: Arrays, other: Arrays, feed: Arrays) -> Counts:
        """Pixels that differ, pixels, then intersections and unions by class.

        Pixels without a class in the reference decide nothing.
        """
        del feed
        before = self.decode(reference[self.output])
        after = self.decode(other[self.output])
        if before.shape != after.shape:
            after = np.full_like(before, NO_CLASS)
        decided = before != NO_CLASS
        before, after = before[decided], after[decided]
        same = np.bincount(before[before == after], minlength=self.classes)
        own = np.bincount(before, minlength=self.classes)
        new = np.bincount(after[after != NO_CLASS], minlength=self.classes)
        changed = np.count_nonzero(before != after)
        return np.concatenate([[changed, before.size], same, own + new - same]).astype(np.float64)

    def start(self) -> TaskMeter:
        """A meter without samples."""
        return CountsMeter(self)


def _compute_mean_iou(classes: int, sums: Counts) -> float:
    both, either = sums[2 : 2 + classes], sums[2 + classes :]
    occurs = either > 0
    return float((both[occurs] / either[occurs]).mean()) if occurs.any() else 1.0


def find_masks(examples: Sequence[Example], request: TaskRequest) -> Found | None:
    """Scores by class and pixel, one mask of values from 0 to 1, or a map of integer classes."""
    sides = [array.shape for array in examples[0].feed.values() if array.ndim == 4]
    for name in examples[0].outputs:
        arrays = [example.outputs[name] for example in examples]
        if sides and arrays[0].ndim in (3, 4) and arrays[0].size:
            task = _find_mask(name, arrays, asked=request.asked)
            if task is not None:
                return task, f"output {name} gives {task.describe_output(arrays[0])}"
    return None


def _find_mask(name: str, arrays: Sequence[NDArray[Any]], *, asked: bool) -> SegmentTask | None:
    one, named = arrays[0], _MASKS.search(name) is not None
    if one.dtype.kind in "iu":
        largest = max(int(a.max()) for a in arrays)
        coherent = _compute_equal_neighbour_share(one.reshape(-1, *one.shape[-2:])) >= MIN_COHERENT
        fits = min(one.shape[-2:]) >= MIN_SIDE and 0 < largest < MAX_CLASSES and one.min() >= 0
        # an integer map shows only the classes that occur
        return (
            SegmentTask(name, MAX_CLASSES, None) if fits and (asked or named or coherent) else None
        )
    if one.ndim != 4 or one.dtype.kind != "f":
        return None
    axis = 3 if one.shape[3] < min(one.shape[1:3]) and one.shape[1] >= MIN_SIDE else 1
    classes = one.shape[axis]
    height, width = (n for k, n in enumerate(one.shape) if k not in (0, axis))
    if min(height, width) < MIN_SIDE or classes > MAX_CLASSES:
        return None
    if classes == 1:
        within = all(a.min() >= 0 and a.max() <= 1 for a in arrays)
        decided = np.mean([np.mean((a < 0.1) | (a > 0.9)) for a in arrays])
        if asked or named or (within and decided >= MIN_DECIDED):
            return SegmentTask(name, 2, axis, THRESHOLD if within else 0.0)
        return None
    coherent = _compute_equal_neighbour_share(one.argmax(axis=axis)) >= MIN_COHERENT
    likely = named or is_distribution(one, axis) or (coherent and classes != 3)
    return SegmentTask(name, classes, axis) if asked or likely else None


def _compute_equal_neighbour_share(labels: NDArray[Any]) -> float:
    if len(np.unique(labels)) < 2:
        return 0.0  # one class everywhere shows nothing
    return float(np.mean(labels[..., 1:] == labels[..., :-1]))
