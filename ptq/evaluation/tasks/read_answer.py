"""Outputs of a model on one sample → its answer, for readers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.data.preprocessing.exporter_metadata import read_names
from ptq.evaluation.answers import Answer, AnswerBox
from ptq.evaluation.metrics import NO_CLASS
from ptq.evaluation.tasks.box_heads import CONFIDENCE, SUPPRESSION_IOU
from ptq.evaluation.tasks.classify import ClassifyTask
from ptq.evaluation.tasks.ctc import CtcTask
from ptq.evaluation.tasks.detect import DetectTask
from ptq.evaluation.tasks.image_size import find_image_size
from ptq.evaluation.tasks.mask_pictures import find_mask
from ptq.evaluation.tasks.segment import SegmentTask
from ptq.evaluation.tasks.sequence import SequenceTask, find_positions
from ptq.evaluation.tasks.task import Arrays, Task

MAX_TOKENS, MAX_BOXES = 120, 40
"""Tokens and boxes of one answer."""
MAX_CLASSES = 6
"""Classes of pixels whose shares are listed."""


def read_answer(
    task: Task, outputs: Arrays, feed: Arrays, metadata: Mapping[str, str]
) -> Answer | None:
    """The answer of a model; None if the task has none that can be shown.

    Args:
        task: The task.
        outputs: Outputs of the model on one sample.
        feed: The sample.
        metadata: Metadata of the model, which may name classes and characters.
    """
    if isinstance(task, ClassifyTask):
        best = task.decode(outputs[task.output])
        return Answer((_name_class(read_names(metadata), best),) if best != NO_CLASS else ())
    if isinstance(task, CtcTask):
        lines = task.decode(outputs[task.output])
        tokens = [_name_class(task.alphabet, label) for line in lines for label in line]
        return Answer(tuple(tokens[:MAX_TOKENS]), joined=bool(task.alphabet))
    if isinstance(task, SequenceTask):
        classes = task.decode(outputs[task.output])
        used = find_positions(feed, classes.shape)
        return Answer(
            tuple(_name_class((), label) for label in classes[used][:MAX_TOKENS].tolist())
        )
    if isinstance(task, DetectTask):
        return _read_boxes(task, outputs, feed, read_names(metadata))
    if isinstance(task, SegmentTask):
        return _read_mask(task, outputs, read_names(metadata))
    return None


def _read_mask(task: SegmentTask, outputs: Arrays, names: tuple[str, ...]) -> Answer | None:
    """The shares of the classes, the largest first."""
    mask = find_mask(task, outputs)
    if mask is None:
        return None
    labels, counts = np.unique(mask, return_counts=True)
    largest = np.argsort(-counts, kind="stable")[:MAX_CLASSES]
    shares = [(int(labels[k]), 100 * counts[k] / mask.size) for k in largest]
    return Answer(tuple(f"{_name_class(names, label)}: {share:.1f} %" for label, share in shares))


def _read_boxes(
    task: DetectTask, outputs: Arrays, feed: Arrays, names: tuple[str, ...]
) -> Answer | None:
    size = find_image_size(feed)
    if size is None:
        return None
    found = task.head.decode(outputs, feed, CONFIDENCE, SUPPRESSION_IOU)
    corners: NDArray[Any] = found.corners[:MAX_BOXES] / np.array([size[1], size[0]] * 2, float)
    rounded = corners.round(4).tolist()
    rows = zip(rounded, found.classes.tolist(), found.scores.tolist(), strict=False)
    return Answer(
        boxes=tuple(
            AnswerBox(left, top, right, bottom, _name_class(names, label), round(score, 4))
            for (left, top, right, bottom), label, score in rows
        )
    )


def _name_class(names: tuple[str, ...], label: int) -> str:
    if label == NO_CLASS:
        return "NaN"
    return names[label] if 0 <= label < len(names) else str(label)
