"""Boxes with classes and scores: overlap, suppression of overlapping boxes, and matching of two sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MATCHING_IOU = 0.5
"""Two boxes of one class with at least this overlap are the same."""

MIN_INSIDE = 0.8
"""Share of the boxes of a grid that lie in the image, but for a tenth of its side."""
_MARGIN = 0.1


@dataclass(frozen=True, eq=False)
class Boxes:
    """The boxes found in one image, the highest score first.

    Attributes:
        corners: Left, top, right and bottom, shape (boxes, 4).
        scores: From 0 to 1.
        classes: Index of the class.
    """

    corners: Floats
    scores: Floats
    classes: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.scores)

    def take(self, rows: NDArray[Any]) -> Boxes:
        """The boxes of these rows."""
        return Boxes(self.corners[rows], self.scores[rows], self.classes[rows])


def fill_image(rows: Floats) -> bool:
    """Whether rows of centre and size, in shares, are those of a grid of cells.

    Centres of cells reach over the image from side to side, and hardly any box reaches out of it.

    Args:
        rows: Centre, size and further numbers, shape (rows, 4 or more).
    """
    if not len(rows):
        return False
    centres, sizes = rows[:, :2], rows[:, 2:4]
    near, far = np.quantile(centres, [0.1, 0.9], axis=0)
    reach = np.abs(centres - 0.5) + sizes / 2
    inside = np.mean((reach <= 0.5 + _MARGIN).all(axis=1)) >= MIN_INSIDE
    return bool(inside and near.max() < 1 / 3 and far.min() > 2 / 3)


def compute_iou(one: Floats, other: Floats) -> Floats:
    """Intersection over union of each pair of boxes, shape (boxes of the first, boxes of the other)."""
    both = _intersect(one, other)
    either = _compute_areas(one)[:, None] + _compute_areas(other)[None] - both
    overlap: Floats = both / np.where(either > 0, either, 1.0)
    return overlap


def measure_cover(one: Floats, other: Floats) -> Floats:
    """Share of the area of each box that lies in each of the others, shape (boxes, others)."""
    areas = _compute_areas(one)[:, None]
    cover: Floats = _intersect(one, other) / np.where(areas > 0, areas, 1.0)
    return cover


def suppress_overlaps(found: Boxes, most: float) -> Boxes:
    """Greedy non-maximum suppression by class: a box is left out if it overlaps one of a higher score by more."""
    order = np.argsort(-found.scores, kind="stable")
    kept: list[int] = []
    while len(order):
        first, rest = order[0], order[1:]
        kept.append(int(first))
        overlap = compute_iou(found.corners[first : first + 1], found.corners[rest])[0]
        same = found.classes[rest] == found.classes[first]
        order = rest[~(same & (overlap > most))]
    return found.take(np.array(kept, np.intp))


def match_boxes(reference: Boxes, other: Boxes) -> NDArray[np.intp]:
    """For each box, the other box of its class that overlaps it most, or −1; none is taken twice.

    Args:
        reference: Boxes that choose, in the order of their scores.
        other: Boxes that are chosen.
    """
    overlap = compute_iou(reference.corners, other.corners)
    overlap[reference.classes[:, None] != other.classes[None]] = 0
    found = np.full(len(reference), -1, np.intp)
    for row in np.argsort(-reference.scores, kind="stable"):
        if overlap.shape[1] and overlap[row].max() >= MATCHING_IOU:
            found[row] = overlap[row].argmax()
            overlap[:, found[row]] = 0
    return found


def _intersect(one: Floats, other: Floats) -> Floats:
    near = np.maximum(one[:, None, :2], other[None, :, :2])
    far = np.minimum(one[:, None, 2:], other[None, :, 2:])
    area: Floats = np.clip(far - near, 0, None).prod(axis=2)
    return area


def _compute_areas(corners: Floats) -> Floats:
    areas: Floats = np.clip(corners[:, 2:] - corners[:, :2], 0, None).prod(axis=1)
    return areas
