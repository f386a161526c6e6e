"""Which outputs of a detector hold its boxes, by their layout, their values and their names.

- one output of rows (x, y, w, h, objectness, scores): YOLOv5 to v7;
- one output of columns (x, y, w, h, scores): YOLOv8 and later;
- one output of rows (left, top, right, bottom, score, class): end-to-end exports with suppression in the graph;
- boxes and scores in two outputs, with or without a third one of classes: SSD, DETR, Faster R-CNN.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ptq.data.preprocessing.exporter_metadata import read_names
from ptq.evaluation.tasks.box_heads import BoxHead, are_shares, read_rows
from ptq.evaluation.tasks.boxes import Floats, fill_image
from ptq.evaluation.tasks.task import Arrays, is_distribution

_MIN_ROWS = 20
"""A grid has more cells; a table of a few rows is something else."""
_CLASSES = re.compile(r"class|label|categor", re.IGNORECASE)
_SCORES = re.compile(r"score|conf|prob", re.IGNORECASE)


def list_heads(
    outputs: Arrays, metadata: Mapping[str, str], *, asked: bool = False
) -> Iterator[BoxHead]:
    """The heads that the outputs of one image may be, the likely first.

    Args:
        outputs: Outputs of the float model.
        metadata: The model's metadata: Ultralytics writes the names of the classes.
        asked: Whether boxes are asked for; then a few rows suffice.
    """
    classes, fewest = len(read_names(metadata)) or None, 1 if asked else _MIN_ROWS
    for name, array in outputs.items():
        if array.dtype.kind == "f" and array.ndim in (2, 3) and array.size:
            yield from _list_heads_of_one(name, array, classes, fewest)
    for name, array in outputs.items():
        if array.dtype.kind == "f" and array.ndim >= 2 and array.shape[-1] == 4:
            yield from _list_heads_of_two(name, outputs)


def _list_heads_of_one(
    name: str, array: NDArray[Any], classes: int | None, fewest: int
) -> Iterator[BoxHead]:
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
    if 5 <= height < width and width >= fewest:
        rows = read_rows(array, columns=True)
        last = None if classes is None or classes + 4 > height else 4 + classes
        if _are_sizes(rows) and are_shares(rows[:, 4:last]):
            yield BoxHead(name, name, columns=True, classes=None if last is None else last - 4)
    if 5 <= width < height and height >= fewest:
        rows = read_rows(array, columns=False)
        if width > 5 and _are_sizes(rows) and are_shares(rows[:, 4:]):
            yield BoxHead(name, name, objectness=True, score=5)


def _list_heads_of_two(boxes: str, outputs: Arrays) -> Iterator[BoxHead]:
    rows = read_rows(outputs[boxes], columns=False)
    if not len(rows):
        return
    corners = _are_corners(rows)
    if not corners and not _are_sizes(rows, pixels=False):
        return
    others = {k: v for k, v in outputs.items() if k != boxes and v.size and v.size % len(rows) == 0}
    flat = {k: np.asarray(v, np.float64).reshape(len(rows), -1) for k, v in others.items()}
    columns = [k for k, v in flat.items() if v.shape[1] == 1]
    labels = sorted(
        (k for k in columns if _are_labels(flat[k])), key=lambda k: not _is_class_output(k)
    )
    shares = [k for k in columns if outputs[k].dtype.kind == "f" and are_shares(flat[k])]
    # classes 0 and 1 are shares too
    scores = [k for k in shares if not _are_labels(flat[k])] or shares
    heads = [
        BoxHead(boxes, name, next((k for k in labels if k != name), None), corners=corners)
        for name in scores
    ]
    for name, table in flat.items():
        has_corners = corners and outputs[name].shape[-1:] == (4,) and table.shape[1] >= 4
        other_boxes = has_corners and _are_corners(table)
        if (
            outputs[name].dtype.kind == "f"
            and table.shape[1] > 1
            and (are_shares(table) or not other_boxes)
        ):
            activation, background = _read_activation(table)
            heads.append(
                BoxHead(boxes, name, corners=corners, activation=activation, background=background)
            )
    order = list(flat)
    yield from sorted(heads, key=lambda head: (not _are_named(head), order.index(head.scores)))


def _is_class_output(output: str) -> bool:
    return _CLASSES.search(output) is not None and _SCORES.search(output) is None


def _are_named(head: BoxHead) -> bool:
    """Whether the names say which output holds scores, and which one classes."""
    named = head.labels is not None and _is_class_output(head.labels)
    return named and _SCORES.search(head.scores) is not None


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
