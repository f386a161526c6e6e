"""The outputs of detectors → boxes: where corners, scores and classes stand in them.

- one output of rows (x, y, w, h, objectness, scores): YOLOv5 to v7;
- one output of columns (x, y, w, h, scores): YOLOv8 and later;
- one output of rows (left, top, right, bottom, score, class): end-to-end exports with suppression in the graph;
- boxes and scores in two outputs, with or without a third one of classes: SSD, DETR, Faster R-CNN.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ptq.data.exporter_metadata import read_names
from ptq.evaluation.tasks.boxes import Boxes, Floats, fill_image, suppress_overlaps
from ptq.evaluation.tasks.image_size import find_image_size
from ptq.evaluation.tasks.task import Arrays, is_distribution

CONFIDENCE, SUPPRESSION_IOU = 0.25, 0.45
"""A box counts from this score on, and overlapping boxes of one class are suppressed above this overlap."""
MAX_CANDIDATES = 2000
"""Boxes before suppression, the highest scores first."""
LARGEST_SHARE = 2.0
"""Boxes whose greatest number is mostly below are shares of the image; boxes in pixels are greater."""
_MIN_ROWS = 20
"""A grid has more cells; a table of a few rows is something else."""


@dataclass(frozen=True)
class BoxHead:
    """Where a detector's outputs hold corners, scores and classes.

    Attributes:
        boxes: Name of the output with the boxes.
        scores: Name of the output with the scores; the same for one output.
        labels: Name of the output with classes; None if classes follow from scores.
        columns: Whether each box is a column, not a row.
        first: Index of the first number of the box.
        corners: Whether a box is given by its corners, not by centre and size.
        objectness: Whether the scores follow a score of any object at all.
        score: Index of the first score in one output.
        label: Index of the class in one output; None if classes follow from scores.
        classes: Number of classes in one output; None for all that follow.
        activation: What turns scores into probabilities.
        background: Class of nothing; None if there is none.
        shares: Whether the numbers of the boxes are shares of the image, not pixels.
        rows_first: Whether corners are top, left, bottom and right, as TensorFlow writes them.
    """

    boxes: str
    scores: str
    labels: str | None = None
    columns: bool = False
    first: int = 0
    corners: bool = False
    objectness: bool = False
    score: int = 4
    label: int | None = None
    classes: int | None = None
    activation: Literal["none", "sigmoid", "softmax"] = "none"
    background: int | None = None
    shares: bool = False
    rows_first: bool = False

    @property
    def layout(self) -> object:
        """What all images have in common."""
        return self.boxes, self.scores, self.columns

    @property
    def suppressed(self) -> bool:
        """Whether the graph has suppressed overlapping boxes."""
        return self.labels is not None or self.label is not None

    def decode(
        self,
        outputs: Arrays,
        feed: Arrays,
        confidence: float = CONFIDENCE,
        overlap: float = SUPPRESSION_IOU,
    ) -> Boxes:
        """The boxes of one image whose score is at least ``confidence``, suppressed above an overlap.

        They are in pixels of the image; shares stay shares if no input is an image.
        """
        rows = read_rows(outputs[self.boxes], columns=self.columns)
        corners = self._read_corners(rows)
        size = find_image_size(feed) if self.shares else None
        if size is not None:
            corners = corners * np.array([size[1], size[0]] * 2, np.float64)
        scores, classes = self._read_scores(outputs, rows)
        return choose_boxes(
            corners, scores, classes, confidence, None if self.suppressed else overlap
        )

    def place(self, all_outputs: Iterable[Arrays]) -> BoxHead:
        """The same head, with ``shares`` as the boxes of some images show."""
        corners = np.concatenate(
            [
                self._read_corners(read_rows(outputs[self.boxes], columns=self.columns))
                for outputs in all_outputs
                if outputs[self.boxes].size
            ]
            or [np.empty((0, 4))]
        )
        sizes = corners[:, 2:] - corners[:, :2]
        filled = corners[np.isfinite(corners).all(axis=1) & (sizes > 0).all(axis=1)]
        shares = len(filled) > 0 and np.median(np.abs(filled).max(axis=1)) <= LARGEST_SHARE
        return replace(self, shares=bool(shares))

    def _read_corners(self, rows: Floats) -> Floats:
        """Left, top, right and bottom in the unit of the model."""
        corners = rows[:, self.first : self.first + 4]
        if not self.corners:
            centre, half = corners[:, :2], corners[:, 2:] / 2
            return np.concatenate([centre - half, centre + half], axis=1)
        return corners[:, [1, 0, 3, 2]] if self.rows_first else corners

    def _read_scores(self, outputs: Arrays, rows: Floats) -> tuple[Floats, NDArray[np.int64]]:
        if self.label is not None:
            return rows[:, self.score], rows[:, self.label].astype(np.int64)
        if self.labels is not None:
            classes = np.asarray(outputs[self.labels]).reshape(-1).astype(np.int64)
            return np.asarray(outputs[self.scores], np.float64).reshape(-1), classes
        if self.scores == self.boxes:
            last = None if self.classes is None else self.score + self.classes
            scores = rows[:, self.score : last]
            scores = scores * rows[:, self.score - 1 : self.score] if self.objectness else scores
        else:
            scores = read_rows(outputs[self.scores], columns=False)
            scores = (
                scores.reshape(len(rows), -1) if scores.size % max(len(rows), 1) == 0 else scores
            )
        scores = compute_probabilities(scores, self.activation)
        if self.background is not None:
            scores = scores.copy()
            scores[:, self.background] = 0
        return scores.max(axis=1, initial=0.0), scores.argmax(axis=1)


def choose_boxes(
    corners: Floats,
    scores: Floats,
    classes: NDArray[np.int64],
    confidence: float,
    overlap: float | None,
) -> Boxes:
    """The boxes that count, the highest score first.

    Args:
        corners: All boxes, shape (boxes, 4).
        scores: Their scores.
        classes: Their classes.
        confidence: The least score.
        overlap: Boxes of one class above it are suppressed; None to keep all.
    """
    count = min(len(corners), len(scores))  # an output that depends on values may be shorter
    usable = np.isfinite(corners[:count]).all(axis=1) & (scores[:count] >= confidence)
    chosen = np.flatnonzero(usable)
    chosen = chosen[np.argsort(-scores[chosen], kind="stable")][:MAX_CANDIDATES]
    found = Boxes(corners[chosen], scores[chosen], classes[chosen])
    return found if overlap is None else suppress_overlaps(found, overlap)


def read_rows(array: NDArray[Any], *, columns: bool) -> Floats:
    """One output as a table with one row for each box."""
    table = np.asarray(array, np.float64)
    table = (
        table.reshape(-1, 1)
        if table.ndim < 2
        else table.reshape(-1, *table.shape[-2:])[0]
        if columns
        else (table.reshape(-1, table.shape[-1]))
    )
    return table.T if columns else table


def compute_probabilities(scores: Floats, activation: str) -> Floats:
    """Probabilities from logits."""
    if activation == "sigmoid":
        return 1 / (1 + np.exp(-np.clip(scores, -50, 50)))
    if activation == "softmax":
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))
    return scores


def list_heads(outputs: Arrays, metadata: Mapping[str, str]) -> Iterator[BoxHead]:
    """The heads that the outputs of one image may be, the likely first.

    Args:
        outputs: Outputs of the float model.
        metadata: The model's metadata: Ultralytics writes the names of the classes.
    """
    classes = len(read_names(metadata)) or None
    for name, array in outputs.items():
        if array.dtype.kind == "f" and array.ndim in (2, 3) and array.size:
            yield from _heads_of_one(name, array, classes)
    for name, array in outputs.items():
        if array.dtype.kind == "f" and array.ndim >= 2 and array.shape[-1] == 4:
            yield from _heads_of_two(name, outputs)


def _heads_of_one(name: str, array: NDArray[Any], classes: int | None) -> Iterator[BoxHead]:
    height, width = array.shape[-2:]
    if array.ndim == 3 and array.shape[0] != 1:
        return
    if width in (6, 7):
        rows = read_rows(array, columns=False)
        place = {6: (0, 4, 5), 7: (1, 6, 5)}[width]
        first, score, label = place
        found = rows[rows[:, score] > 0]
        if (
            are_shares(rows[:, score])
            and _are_labels(rows[:, label])
            and _are_corners(found[:, first:])
        ):
            yield BoxHead(name, name, first=first, corners=True, score=score, label=label)
    if 5 <= height < width and width >= _MIN_ROWS:
        rows = read_rows(array, columns=True)
        last = None if classes is None or classes + 4 > height else 4 + classes
        if _are_sizes(rows) and are_shares(rows[:, 4:last]):
            yield BoxHead(name, name, columns=True, classes=None if last is None else last - 4)
    if 5 <= width < height and height >= _MIN_ROWS:
        rows = read_rows(array, columns=False)
        if width > 5 and _are_sizes(rows) and are_shares(rows[:, 4:]):
            yield BoxHead(name, name, objectness=True, score=5)


def _heads_of_two(boxes: str, outputs: Arrays) -> Iterator[BoxHead]:
    rows = read_rows(outputs[boxes], columns=False)
    corners = _are_corners(rows)
    if not corners and not _are_sizes(rows, pixels=False):
        return
    others = {k: v for k, v in outputs.items() if k != boxes and v.size and v.size % len(rows) == 0}
    flat = {k: np.asarray(v, np.float64).reshape(len(rows), -1) for k, v in others.items()}
    for name, scores in flat.items():
        if outputs[name].dtype.kind != "f" or (
            name != boxes
            and outputs[name].shape[-1] == 4
            and corners
            and _are_corners(scores)
            and not are_shares(scores)
        ):
            continue
        if scores.shape[1] == 1 and are_shares(scores):
            labels = [
                k for k, v in flat.items() if k != name and v.shape[1] == 1 and _are_labels(v)
            ]
            yield BoxHead(boxes, name, labels[0] if labels else None, corners=corners)
        elif scores.shape[1] > 1:
            activation, background = _read_activation(scores)
            yield BoxHead(
                boxes, name, corners=corners, activation=activation, background=background
            )


def _read_activation(scores: Floats) -> tuple[Literal["none", "sigmoid", "softmax"], int | None]:
    """What turns scores into probabilities, and the class of nothing.

    Most rows of a detector are background. Where probabilities of a row sum to 1, it is the first or last class that
    most rows have. Logits of a softmax have a positive background in most rows; those of a sigmoid are negative.
    """
    best = np.bincount(scores.argmax(axis=1), minlength=scores.shape[1])
    common = int(best.argmax())
    at_an_end = common in (0, scores.shape[1] - 1)
    if are_shares(scores):
        return "none", common if is_distribution(scores) and at_an_end else None
    positive = np.mean(scores.max(axis=1) > 0)
    if at_an_end and positive > 0.5 and best[common] > 0.5 * len(scores):
        return "softmax", common
    return "sigmoid", None


def are_shares(values: NDArray[Any]) -> bool:
    """Whether all values lie between 0 and 1."""
    return bool(values.size) and bool(
        np.isfinite(values).all() and values.min() >= -1e-3 and values.max() <= 1.001
    )


def _are_labels(values: Floats) -> bool:
    return bool((values == np.round(values)).all() and values.min(initial=0) >= -1)


def _are_corners(rows: Floats) -> bool:
    """Whether nearly all rows have the near corner before the far one; boxes at an edge may be turned over."""
    return len(rows) == 0 or bool(np.mean((rows[:, 2:4] >= rows[:, :2]).all(axis=1)) >= 0.99)


def _are_sizes(rows: Floats, *, pixels: bool = True) -> bool:
    """Whether the rows start with centre and size; in pixels, or as shares of a grid's cells."""
    sizes, centres = rows[:, 2:4], rows[:, :2]
    inside = np.mean(sizes > 0) >= 0.99 and np.mean(centres >= -sizes) >= 0.99
    return bool(inside and (not pixels or np.median(centres) > 1 or fill_image(rows)))
