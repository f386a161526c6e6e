"""Task ``detect``: boxes with classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ptq.evaluation.tasks.box_heads import BoxHead, list_heads
from ptq.evaluation.tasks.boxes import compute_iou, match_boxes
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
    """

    head: BoxHead
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
        del feed
        before, after = self.head.decode(reference), self.head.decode(other)
        found = match_boxes(before, after)
        kept = np.flatnonzero(found >= 0)
        overlap = compute_iou(before.corners, after.corners)[kept, found[kept]].sum()
        lost = len(before) - len(kept)
        return np.array([lost, len(before), len(after) - len(kept), len(after), overlap], float)

    def start(self) -> TaskMeter:
        """A meter without samples."""
        return CountsMeter(self)


def find_boxes(examples: Sequence[Example], request: TaskRequest) -> Found | None:
    """Boxes by the layout and the values of the outputs; all examples show the same head."""
    images = any(array.ndim in (3, 4) for array in examples[0].feed.values())
    if not (images or request.asked) or request.metadata.get("task", "detect") not in (
        "detect",
        "segment",
        "pose",
    ):
        return None
    for head in list_heads(examples[0].outputs, request.metadata):
        if all(_fits(head, example, request.metadata) for example in examples[1:]):
            one = head.scores == head.boxes
            where = (
                f"output {head.boxes} holds"
                if one
                else f"outputs {head.boxes} and {head.scores} hold"
            )
            recorded = "; so say the metadata" if request.metadata.get("task") == "detect" else ""
            return DetectTask(head), f"{where} boxes and scores{recorded}"
    return None


def _fits(head: BoxHead, example: Example, metadata: Mapping[str, str]) -> bool:
    """Whether a sample has the same layout; boxes of an empty image show nothing."""
    layouts = [(h.boxes, h.scores, h.columns) for h in list_heads(example.outputs, metadata)]
    empty = not example.outputs[head.boxes].size
    return empty or (head.boxes, head.scores, head.columns) in layouts
