"""Labelled boxes of images, and how a model may number their classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class LabelledBoxes:
    """The labelled boxes of one image.

    Attributes:
        corners: Left, top, right and bottom, shape (boxes, 4).
        classes: Number of the class of each box.
        ignored: Whether a box is a region, as a crowd: what is found in it is neither right nor wrong.
    """

    corners: NDArray[np.float64]
    classes: NDArray[np.int64]
    ignored: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.classes)

    def take(self, rows: NDArray[np.bool_]) -> LabelledBoxes:
        """The boxes of these rows."""
        return LabelledBoxes(self.corners[rows], self.classes[rows], self.ignored[rows])


@dataclass(frozen=True)
class ClassNumbers:
    """One way in which a model may number the labelled classes.

    Attributes:
        name: What its numbers are.
        numbers: Its number of each labelled class.
    """

    name: str
    numbers: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class BoxLabels:
    """The labelled boxes of a set of images.

    Attributes:
        images: The boxes by the name of the image; images without an entry are not labelled.
        numberings: How a model may number the classes, the likeliest first.
        notes: What was left out.
    """

    images: Mapping[str, LabelledBoxes] = field(default_factory=dict)
    numberings: tuple[ClassNumbers, ...] = ()
    notes: tuple[str, ...] = ()

    def number_classes(self, numbering: ClassNumbers) -> Mapping[str, LabelledBoxes]:
        """The boxes with the numbers of a model."""
        numbers = np.array(numbering.numbers, np.int64)
        return {
            name: replace(found, classes=numbers[found.classes])
            for name, found in self.images.items()
        }


NO_BOXES = BoxLabels()


def list_boxes(rows: object, ignored: object = None) -> LabelledBoxes:
    """Boxes from rows of class, left, top, right, bottom; by default none is ignored."""
    table = np.array(rows, np.float64).reshape(-1, 5)
    flags = np.zeros(len(table), bool) if ignored is None else np.array(ignored, bool)
    return LabelledBoxes(table[:, 1:], table[:, 0].astype(np.int64), flags)
