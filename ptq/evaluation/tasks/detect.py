"""Task ``detect``: boxes with classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ptq.data.box_labels import LabelledBoxes
from ptq.evaluation import intervals
from ptq.evaluation.drop import Drop
from ptq.evaluation.metrics import Figure
from ptq.evaluation.tasks.average_precision import CONFIDENCE, SUPPRESSION_IOU, PrecisionMeter
from ptq.evaluation.tasks.box_heads import BoxHead, list_heads
from ptq.evaluation.tasks.boxes import Boxes, compute_iou, match_boxes
from ptq.evaluation.tasks.grid_heads import GridHead, list_grid_heads
from ptq.evaluation.tasks.task import (
    Arrays,
    Counts,
    CountsMeter,
    Example,
    Found,
    Ratio,
    TaskMeter,
    TaskRequest,
    share_of,
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
        Ratio("boxes that float does not have", lambda sums: share_of(sums[2], sums[3])),
        Ratio("mean IoU of equal boxes", lambda sums: share_of(sums[4], sums[1] - sums[0])),
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


class LabelledMeter:
    """Mean average precision of the float model and of another form, on images with labelled boxes."""

    def __init__(self, task: DetectTask) -> None:
        """``task`` holds the labels."""
        self._task, self._counts = task, CountsMeter(task)
        self._before, self._after = PrecisionMeter(), PrecisionMeter()
        self._same = True

    def add(self, example: Example, other: Arrays) -> None:
        """Add one sample; labels of other samples are left out."""
        self._same &= other is example.outputs
        self._counts.add(example, other)
        labels = self._task.labels.get(example.name)
        if labels is None:
            return
        labelled_boxes = Boxes(labels.corners, np.ones(len(labels.classes)), labels.classes)
        for meter, outputs in ((self._before, example.outputs), (self._after, other)):
            found = self._task.head.decode(outputs, example.feed, CONFIDENCE, SUPPRESSION_IOU)
            meter.add(found, labelled_boxes)

    def measure_drop(self) -> Drop:
        """Loss of mAP50-95 against float, with a paired bootstrap over images."""
        before, after = self._measure(self._before), self._measure(self._after)
        lost = 100 * (before - after).mean(axis=1)
        lo, hi = intervals.percentile_interval(lost[1:])
        return Drop("mAP50-95", float(lost[0]), lo, hi, self._after.images)

    def measure_figures(self) -> tuple[Figure, ...]:
        """mAP50-95, mAP50 and, of another form, the agreement of its boxes with float."""
        found = self._measure(self._after)
        figures = [
            Figure(name, float(values[0]), intervals.percentile_interval(values[1:]))
            for name, values in (("mAP50-95", found.mean(axis=1)), ("mAP50", found[:, 0]))
        ]
        if not self._same:
            drop = self._counts.measure_drop()
            kept = 1 - drop.points / 100, (1 - drop.hi / 100, 1 - drop.lo / 100)
            figures += [Figure(drop.metric, *kept), *self._counts.measure_figures()]
        return tuple(figures)

    def _measure(self, meter: PrecisionMeter) -> Counts:
        """All images once, then the bootstrap draws."""
        draws = intervals.draw_sample_counts(meter.images)
        return meter.measure(np.concatenate([np.ones((1, meter.images)), draws]))


def find_boxes(examples: Sequence[Example], request: TaskRequest) -> Found | None:
    """Boxes by the layout and the values of the outputs; all examples show the same head."""
    images = any(array.ndim in (3, 4) for array in examples[0].feed.values())
    if not (images or request.asked) or request.metadata.get("task", "detect") not in (
        "detect",
        "segment",
        "pose",
    ):
        return None
    for head in _list_layouts(examples[0], request.metadata):
        if all(_fits(head, example, request.metadata) for example in examples[1:]):
            recorded = "; so say the metadata" if request.metadata.get("task") == "detect" else ""
            return DetectTask(head, request.labels.boxes), f"{_describe_head(head)}{recorded}"
    return None


def _list_layouts(example: Example, metadata: Mapping[str, str]) -> Iterator[BoxHead | GridHead]:
    yield from list_heads(example.outputs, metadata)
    yield from list_grid_heads(example.outputs, example.feed)


def _describe_head(head: BoxHead | GridHead) -> str:
    one = head.scores == head.boxes
    where = f"output {head.boxes} holds" if one else f"outputs {head.boxes} and {head.scores} hold"
    if isinstance(head, BoxHead):
        return f"{where} boxes and scores"
    strides = ", ".join(str(level.stride) for level in head.levels)
    return f"{where} boxes and scores of cells of {strides} pixels"


def _fits(head: BoxHead | GridHead, example: Example, metadata: Mapping[str, str]) -> bool:
    """Whether a sample has the same layout; boxes of an empty image show nothing."""
    layouts = [other.layout for other in _list_layouts(example, metadata)]
    return not example.outputs[head.boxes].size or head.layout in layouts
