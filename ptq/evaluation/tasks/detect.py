"""Task ``detect``: boxes with classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from ptq.core.errors import DataError
from ptq.data.labels.labelled_boxes import LabelledBoxes
from ptq.evaluation import intervals
from ptq.evaluation.drop import Drop
from ptq.evaluation.metrics import Figure
from ptq.evaluation.tasks.average_precision import (
    LABELLED_CONFIDENCE,
    LABELLED_SUPPRESSION_IOU,
    PrecisionMeter,
)
from ptq.evaluation.tasks.box_heads import BoxHead
from ptq.evaluation.tasks.box_layouts import list_heads
from ptq.evaluation.tasks.boxes import compute_iou, match_boxes
from ptq.evaluation.tasks.grid_heads import GridHead, list_grid_heads
from ptq.evaluation.tasks.label_fit import fit_labels
from ptq.evaluation.tasks.task import (
    EXAMPLES,
    Arrays,
    Counts,
    CountsMeter,
    Example,
    Found,
    Ratio,
    TaskMeter,
    TaskRequest,
    compute_mean,
    compute_share,
)


@dataclass(frozen=True)
class DetectTask:
    """Finds boxes; a float box is kept if another form has a box of its class with IoU of at least 0.5.

    Attributes:
        head: Where the outputs hold boxes.
        labels: Labelled boxes by the name of the sample; with them mean average precision is measured.
    """

    head: BoxHead | GridHead
    labels: Mapping[str, LabelledBoxes] = field(default_factory=dict)
    name: Literal["detect"] = "detect"
    metric: str = "agreement of boxes"
    ratios: Sequence[Ratio] = (
        Ratio("boxes that float does not have", lambda sums: compute_share(sums[2], sums[3])),
        Ratio("mean IoU of equal boxes", lambda sums: compute_mean(sums[4], sums[1] - sums[0])),
    )

    @property
    def output(self) -> str:
        """The output with the boxes."""
        return self.head.boxes

    def compare(self, reference: Arrays, other: Arrays, feed: Arrays) -> Counts:
        """Float boxes lost, float boxes, boxes that float does not have, boxes, overlap of equal boxes."""
        before, after = self.head.decode(reference, feed), self.head.decode(other, feed)
        found = match_boxes(before, after)
        kept = np.flatnonzero(found >= 0)
        overlap = compute_iou(before.corners, after.corners)[kept, found[kept]].sum()
        lost = len(before) - len(kept)
        return np.array([lost, len(before), len(after) - len(kept), len(after), overlap], float)

    def start(self) -> TaskMeter:
        """A meter without samples."""
        return LabelledMeter(self) if self.labels else CountsMeter(self)


MEAN_PRECISION = "mAP50-95"
ENOUGH_BOXES = 50
"""Labelled boxes that show how a model numbers classes and places boxes, even if it finds a third of them."""


class LabelledMeter:
    """Mean average precision of the float model and of another form, on images with labelled boxes."""

    def __init__(self, task: DetectTask) -> None:
        """``task`` holds the labels."""
        self._task, self._counts = task, CountsMeter(task)
        self._before, self._after = PrecisionMeter(), PrecisionMeter()
        self._same = True

    def add(self, example: Example, other: Arrays) -> None:
        """Add one sample; one without labels counts for the agreement with float only."""
        self._same &= other is example.outputs
        self._counts.add(example, other)
        labels = self._task.labels.get(example.name)
        if labels is None:
            return
        for meter, outputs in ((self._before, example.outputs), (self._after, other)):
            found = self._task.head.decode(
                outputs, example.feed, LABELLED_CONFIDENCE, LABELLED_SUPPRESSION_IOU
            )
            meter.add(found, labels)

    def measure_drop(self) -> Drop:
        """Loss of mAP50-95 against float, with a paired bootstrap over images."""
        before, after = self._measure(self._before), self._measure_after()
        lost, images = (before - after).mean(axis=1), self._before.images
        ends = intervals.compute_percentile_interval(lost[1:])
        lo, hi = intervals.widen_equal_draws(float(lost[0]), ends, images, gains=True)
        return Drop(MEAN_PRECISION, 100 * float(lost[0]), 100 * lo, 100 * hi, images)

    def measure_figures(self) -> tuple[Figure, ...]:
        """mAP50-95, mAP50 and, of another form, the agreement of its boxes with float."""
        found = self._measure_after()
        figures = []
        for name, values in ((MEAN_PRECISION, found.mean(axis=1)), ("mAP50", found[:, 0])):
            value, ends = float(values[0]), intervals.compute_percentile_interval(values[1:])
            interval = intervals.widen_equal_draws(value, ends, self._before.images)
            figures.append(Figure(name, value, interval))
        if not self._same:
            drop = self._counts.measure_drop()
            kept = 1 - drop.points / 100, (1 - drop.hi / 100, 1 - drop.lo / 100)
            figures += [Figure(drop.metric, *kept), *self._counts.measure_figures()]
        return tuple(figures)

    def _measure_after(self) -> Counts:
        return self._measure(self._before if self._same else self._after)

    @staticmethod
    def _measure(meter: PrecisionMeter) -> Counts:
        """MAP of all images, then of the draws.

        Raises:
            DataError: None of the samples has labels.
        """
        if not meter.images:
            raise DataError("no labelled box belongs to a sample that accuracy is measured on")
        return meter.measure_draws()


def find_boxes(examples: Sequence[Example], request: TaskRequest) -> Found | None:
    """Boxes by the layout and the values of the outputs; the first examples show one head, and all fit the labels."""
    images = any(array.ndim in (3, 4) for array in examples[0].feed.values())
    if not (images or request.asked) or request.metadata.get("task", "detect") not in (
        "detect",
        "segment",
        "pose",
    ):
        return None
    filled = (e for e in examples if all(array.size for array in e.outputs.values()))
    for head in _list_layouts(next(filled, examples[0]), request):
        if all(_has_same_layout(head, example, request) for example in examples[:EXAMPLES]):
            return _fit_task(head, examples, request)
    return None


def count_shown_boxes(example: Example, request: TaskRequest) -> int:
    """The labelled boxes of a sample; 0 if float finds no box there, as an empty image shows nothing."""
    labelled = request.labels.boxes.images.get(example.name)
    head = next(_list_layouts(example, request), None) if labelled else None
    if labelled is None or head is None or not len(head.decode(example.outputs, example.feed)):
        return 0
    return len(labelled)


def _fit_task(head: BoxHead | GridHead, examples: Sequence[Example], request: TaskRequest) -> Found:
    """The task of a head, with the labels numbered as the model numbers its classes."""
    heads = [head]
    if isinstance(head, BoxHead):
        placed = head.place(example.outputs for example in examples)
        heads = [placed, replace(placed, rows_first=True)] if placed.corners else [placed]
    notes, labels = [], request.labels.boxes
    boxes: Mapping[str, LabelledBoxes] = {}
    head = heads[0]
    if labels.images:
        head, numbering = fit_labels(heads, examples, labels)
        boxes = labels.number_classes(numbering)
        if numbering != labels.numberings[0]:
            notes.append(f"labels match if the numbers of its classes are {numbering.name}")
    notes = [_describe_head(head), *notes, *labels.notes]
    if request.metadata.get("task") == "detect":
        notes.insert(1, "so say the metadata")
    return DetectTask(head, boxes), "; ".join(notes)


def _list_layouts(example: Example, request: TaskRequest) -> Iterator[BoxHead | GridHead]:
    yield from list_heads(example.outputs, request.metadata, asked=request.asked)
    yield from list_grid_heads(example.outputs, example.feed)


def _describe_head(head: BoxHead | GridHead) -> str:
    one = head.scores == head.boxes
    where = f"output {head.boxes} holds" if one else f"outputs {head.boxes} and {head.scores} hold"
    if isinstance(head, BoxHead):
        order = " of top, left, bottom, right" if head.rows_first else ""
        shares = " in shares of the image" if head.shares else ""
        return f"{where} boxes{order}{shares} and scores"
    strides = ", ".join(str(level.stride) for level in head.levels)
    return f"{where} boxes and scores of cells of {strides} pixels"


def _has_same_layout(head: BoxHead | GridHead, example: Example, request: TaskRequest) -> bool:
    """Whether a sample has the same layout; boxes of an empty image show nothing."""
    layouts = [other.layout for other in _list_layouts(example, request)]
    return not example.outputs[head.boxes].size or head.layout in layouts
