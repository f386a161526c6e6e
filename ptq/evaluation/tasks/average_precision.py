"""Mean average precision of boxes: COCO's mAP50 and mAP50-95, with a paired bootstrap over images.

Precision is interpolated at 101 recalls, and the mean is taken over the classes that have labelled boxes (Lin et al.,
ECCV 2014; pycocotools). All sizes count, with at most 100 boxes for each class and image. What is found in an ignored
region, as a crowd, is neither right nor wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ptq.data.labels.labelled_boxes import LabelledBoxes
from ptq.evaluation import intervals
from ptq.evaluation.tasks.boxes import Boxes, compute_iou, measure_cover

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

THRESHOLDS = np.linspace(0.5, 0.95, 10)
RECALLS = np.linspace(0, 1, 101)
"""Precision is averaged over these. As in pycocotools, a recall of 7 in 10 does not reach 0.7, which rounds up."""
MAX_BOXES = 100
LABELLED_CONFIDENCE, LABELLED_SUPPRESSION_IOU = 0.001, 0.7
"""A box is compared with labels from this score on, as detectors are commonly evaluated. Boxes of one class are
suppressed above this overlap.
"""
_MAX_AREA = 1e10
"""Square pixels of the largest size that COCO counts."""
_BLOCK = 1_000_000
"""Weights of boxes in memory at once."""


@dataclass
class PrecisionMeter:
    """Collects the boxes found in labelled images.

    Attributes:
        images: Number of images.
    """

    images: int = 0
    _found: list[Boxes] = field(default_factory=list)
    _right: list[Flags] = field(default_factory=list)
    _counted: list[Flags] = field(default_factory=list)
    _labelled: list[NDArray[np.int64]] = field(default_factory=list)
    _measured: tuple[int, Floats] | None = None

    def add(self, found: Boxes, labelled: LabelledBoxes) -> None:
        """Add the boxes that were found in one image, and its labelled ones."""
        found = found.take(np.argsort(-found.scores, kind="stable"))
        found = found.take(_rank_in_class(found.classes) < MAX_BOXES)
        right, counted = _match_labelled(found, labelled)
        self._found.append(found)
        self._right.append(right)
        self._counted.append(counted)
        self._labelled.append(labelled.classes[~labelled.ignored])
        self.images += 1

    def measure_draws(self) -> Floats:
        """MAP of all images, then of the draws of a bootstrap; computed once for the same images.

        Returns:
            Shape (1 + draws, thresholds).
        """
        if self._measured is None or self._measured[0] != self.images:
            draws = intervals.draw_sample_counts(self.images)
            whole = np.ones((1, self.images))
            self._measured = self.images, self.measure(np.concatenate([whole, draws]))
        return self._measured[1]

    def measure(self, draws: Floats) -> Floats:
        """MAP at each threshold, for several draws of the images.

        Args:
            draws: How often each image counts in each draw, shape (draws, images).

        Returns:
            Shape (draws, thresholds); 0 where no drawn image has labelled boxes.
        """
        total, present = np.zeros((len(draws), len(THRESHOLDS))), np.zeros((len(draws), 1))
        if not self.images:
            return total
        images = np.arange(self.images)
        image = np.repeat(images, [len(found) for found in self._found])
        classes = np.concatenate([found.classes for found in self._found])
        order = np.argsort(-np.concatenate([found.scores for found in self._found]), kind="stable")
        right, counted = np.concatenate(self._right), np.concatenate(self._counted)
        labelled = np.concatenate(self._labelled)
        labelled_image = np.repeat(images, [len(of_image) for of_image in self._labelled])
        for label in np.unique(labelled):
            count = draws[:, labelled_image[labelled == label]].sum(axis=1)
            own = order[classes[order] == label]
            step = max(1, _BLOCK // max(len(own), 1))
            for start in range(0, len(draws), step):
                part = slice(start, start + step)
                weights = draws[part][:, image[own]]
                total[part] += _average_precision(weights, right[own], counted[own], count[part])
            present += (count > 0)[:, None]
        mean: Floats = total / np.maximum(present, 1)
        return mean


def _rank_in_class(classes: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many boxes of the same class come before each box."""
    order = np.argsort(classes, kind="stable")
    _, first, of = np.unique(classes[order], return_index=True, return_inverse=True)
    rank = np.empty(len(classes), np.int64)
    rank[order] = np.arange(len(classes)) - first[of]
    return rank


def _match_labelled(found: Boxes, labelled: LabelledBoxes) -> tuple[Flags, Flags]:
    """Whether each box is right, and whether it counts at all; shape (boxes, thresholds) of both.

    A box takes the labelled one of its class that it overlaps most and that no better box has taken, the last of
    equal ones. If there is none, it does not count where enough of it lies in an ignored region of its class, or
    where its area is out of COCO's range.
    """
    same = found.classes[:, None] == labelled.classes[None]
    regions = labelled.ignored
    overlap = compute_iou(found.corners, labelled.corners[~regions]) * same[:, ~regions]
    right = np.zeros((len(found), len(THRESHOLDS)), bool)
    free = np.ones((len(THRESHOLDS), overlap.shape[1]), bool)
    for row in np.flatnonzero(overlap.max(axis=1, initial=0) >= THRESHOLDS[0]):
        able = np.where(free & (overlap[row] >= THRESHOLDS[:, None]), overlap[row], 0)
        taken = able.shape[1] - 1 - able[:, ::-1].argmax(axis=1)
        right[row] = able.max(axis=1) > 0
        free[right[row], taken[right[row]]] = False
    cover = measure_cover(found.corners, labelled.corners[regions]) * same[:, regions]
    counted = cover.max(axis=1, initial=0)[:, None] < THRESHOLDS
    # of a box that is turned round, one side is negative
    areas = (found.corners[:, 2:] - found.corners[:, :2]).prod(axis=1)
    counted[(areas < 0) | (areas > _MAX_AREA)] = False
    return right, right | counted


def _average_precision(weights: Floats, right: Flags, counted: Flags, count: Floats) -> Floats:
    """Average precision of one class, shape (draws, thresholds).

    The recall rises, and the precision is highest, at right boxes only.

    Args:
        weights: How often each box counts, the highest score first, shape (draws, boxes).
        right: Whether it is right, shape (boxes, thresholds).
        counted: Whether it is right or wrong, not neither.
        count: Number of labelled boxes of each draw; 0 gives the precision 0.
    """
    result = np.zeros((len(weights), right.shape[1]))
    alike = bool(counted.all())
    seen = np.cumsum(weights, axis=1)
    for column in range(right.shape[1]):
        at = np.flatnonzero(right[:, column])
        if not alike:
            seen = np.cumsum(weights * counted[:, column], axis=1)
        hits = np.cumsum(weights[:, at], axis=1)
        precision = hits / np.maximum(seen[:, at], 1)
        precision = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
        recall = hits / np.maximum(count, 1)[:, None]
        reached = np.searchsorted(RECALLS, recall, side="right")  # of the recalls from 0 on
        reached[:, 1:] -= reached[:, :-1].copy()
        result[:, column] = (precision * reached).sum(axis=1) / len(RECALLS)
    return result
