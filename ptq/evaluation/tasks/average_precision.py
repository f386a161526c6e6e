"""Mean average precision of boxes: COCO's mAP50 and mAP50-95, with a paired bootstrap over images.

Precision is interpolated at 101 recalls, and the mean is taken over the classes that have labelled boxes (Lin et al.,
ECCV 2014; pycocotools). All sizes count, with at most 100 boxes for each image.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ptq.evaluation.tasks.boxes import Boxes, compute_iou

Floats = NDArray[np.float64]

THRESHOLDS = np.linspace(0.5, 0.95, 10)
RECALLS = np.linspace(0, 1, 101)
MAX_BOXES = 100
CONFIDENCE, SUPPRESSION_IOU = 0.001, 0.7
"""A box counts from this score on, as detectors are commonly evaluated."""


@dataclass
class PrecisionMeter:
    """Collects the boxes found in labelled images.

    Attributes:
        images: Number of images.
    """

    images: int = 0
    _scores: dict[int, list[Floats]] = field(default_factory=dict)
    _right: dict[int, list[NDArray[np.bool_]]] = field(default_factory=dict)
    _image: dict[int, list[NDArray[np.int64]]] = field(default_factory=dict)
    _labelled: dict[int, list[int]] = field(default_factory=dict)

    def add(self, found: Boxes, labelled: Boxes) -> None:
        """Add the boxes that were found in one image, the highest score first, and its labelled ones."""
        found = found.take(np.argsort(-found.scores, kind="stable")[:MAX_BOXES])
        for label in np.unique(np.concatenate([found.classes, labelled.classes])):
            own = found.take(np.flatnonzero(found.classes == label))
            own_labels = labelled.corners[labelled.classes == label]
            key = int(label)
            self._scores.setdefault(key, []).append(own.scores)
            self._right.setdefault(key, []).append(_match_labelled(own.corners, own_labels))
            self._image.setdefault(key, []).append(np.full(len(own), self.images))
            self._labelled.setdefault(key, []).extend([self.images] * len(own_labels))
        self.images += 1

    def measure(self, draws: Floats) -> Floats:
        """MAP at each threshold, for several draws of the images.

        Args:
            draws: How often each image counts in each draw, shape (draws, images).

        Returns:
            Shape (draws, thresholds); 0 where no drawn image has labelled boxes.
        """
        total, classes = np.zeros((len(draws), len(THRESHOLDS))), np.zeros((len(draws), 1))
        for label, images in self._labelled.items():
            count = draws[:, images].sum(axis=1)
            if not images:
                continue
            order = np.argsort(-np.concatenate(self._scores[label]), kind="stable")
            weights = draws[:, np.concatenate(self._image[label])[order]]
            right = np.concatenate(self._right[label])[order]
            total += np.where(count[:, None] > 0, _average_precision(weights, right, count), 0)
            classes += (count > 0)[:, None]
        mean: Floats = total / np.maximum(classes, 1)
        return mean


def _match_labelled(found: Floats, labelled: Floats) -> NDArray[np.bool_]:
    """Whether each box matches a labelled one that no better box has taken, shape (boxes, thresholds)."""
    overlap = compute_iou(found, labelled)
    right = np.zeros((len(found), len(THRESHOLDS)), bool)
    for column, least in enumerate(THRESHOLDS):
        free = np.ones(len(labelled), bool)
        for row in range(len(found)):
            able = np.where(free, overlap[row], 0)
            if able.size and able.max() >= least:
                right[row, column] = True
                free[able.argmax()] = False
    return right


def _average_precision(weights: Floats, right: NDArray[np.bool_], count: Floats) -> Floats:
    """Average precision of one class, shape (draws, thresholds)."""
    result = np.zeros((len(weights), right.shape[1]))
    if not weights.shape[1]:
        return result
    seen = np.maximum(np.cumsum(weights, axis=1), 1e-12)
    for column in range(right.shape[1]):
        hits = np.cumsum(weights * right[:, column], axis=1)
        precision = np.maximum.accumulate((hits / seen)[:, ::-1], axis=1)[:, ::-1]
        for draw in np.flatnonzero(count):
            recall = hits[draw] / count[draw]
            at = np.searchsorted(recall, RECALLS - 1e-12, side="left")
            inside = at < len(recall)
            result[draw, column] = precision[draw, at[inside]].sum() / len(RECALLS)
    return result
