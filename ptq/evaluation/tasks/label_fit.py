"""How a detector writes what labels name: the numbers of its classes, and the order of its corners.

Every way is tried on a few labelled images. Another way than the likeliest is taken only if it finds clearly more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ptq.data.labels.labelled_boxes import BoxLabels, ClassNumbers, LabelledBoxes
from ptq.evaluation import intervals
from ptq.evaluation.tasks.average_precision import LABELLED_CONFIDENCE, LABELLED_SUPPRESSION_IOU
from ptq.evaluation.tasks.boxes import Boxes, match_boxes
from ptq.evaluation.tasks.task import Arrays, Example

SIGNIFICANCE_LEVEL = 0.01
"""Seven labelled boxes that only the other way finds are enough."""


class Decoder(Protocol):
    """What decodes the outputs of a detector."""

    def decode(self, outputs: Arrays, feed: Arrays, confidence: float, overlap: float) -> Boxes:
        """The boxes of one image."""
        ...


Head = TypeVar("Head", bound=Decoder)


def fit_labels(
    heads: Sequence[Head], examples: Sequence[Example], labels: BoxLabels
) -> tuple[Head, ClassNumbers]:
    """The head, and the numbers of the classes, with which the float model finds the most labelled boxes.

    Args:
        heads: What the head may be, the likeliest first; not empty.
        examples: Some samples.
        labels: The labelled boxes, with all ways in which their classes may be numbered.

    Returns:
        The first of both, unless others are significantly better (McNemar's test on labelled boxes).
    """
    ways = [(head, numbering) for head in heads for numbering in labels.numberings]
    images = [(e, labels.images[e.name]) for e in examples if e.name in labels.images]
    found = [
        [
            head.decode(e.outputs, e.feed, LABELLED_CONFIDENCE, LABELLED_SUPPRESSION_IOU)
            for e, _ in images
        ]
        for head in heads
    ]
    hits = [
        np.concatenate(
            [
                _find_hits(boxes, labelled, numbering)
                for boxes, (_, labelled) in zip(of_head, images, strict=True)
            ]
            or [np.zeros(0, bool)]
        )
        for of_head in found
        for numbering in labels.numberings
    ]
    best = int(np.argmax([way.sum() for way in hits]))
    lost, gained = int((hits[0] & ~hits[best]).sum()), int((hits[best] & ~hits[0]).sum())
    clear = gained > lost and intervals.compute_mcnemar_p_value(lost, gained) < SIGNIFICANCE_LEVEL
    return ways[best if clear else 0]


def _find_hits(found: Boxes, labelled: LabelledBoxes, numbering: ClassNumbers) -> NDArray[np.bool_]:
    """Whether each labelled box is found."""
    classes = np.array(numbering.numbers, np.int64)[labelled.classes]
    searched = Boxes(labelled.corners, np.ones(len(classes)), classes)
    return match_boxes(searched, found) >= 0
