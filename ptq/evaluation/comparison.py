"""Result of ``ptq.compare``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ptq.data.labelling import Labelling
from ptq.evaluation.answers import ChangedSample
from ptq.evaluation.diagnosis import Diagnosis
from ptq.evaluation.drop import Budget, Drop, TaskChoice
from ptq.evaluation.intervals import Interval
from ptq.evaluation.metrics import Accuracy, Fidelity, Figure


@dataclass(frozen=True)
class Comparison:
    """A new model compared with an old one on the same samples.

    Attributes:
        old: Path or name of the old model.
        new: Path or name of the new model.
        samples: Number of samples.
        head: Name of the output that is compared with labels.
        old_accuracy: Accuracy of the old model against labels; None without labels.
        new_accuracy: Accuracy of the new model against labels; None without labels.
        outputs: Fidelity of the new model to the old one, by output.
        drop: Loss of the new model, with its interval.
        old_bytes: Size of the old model's files.
        new_bytes: Size of the new model's files.
        speed: Speed of the new model relative to the old one with batch 1, in interleaved runs.
        preprocessing: Operations applied to images, audio or text; empty for arrays.
        budget: The drop compared with the budget; None without a budget.
        skipped: Skipped bad samples, each with its reason.
        suspects: Known causes of bad figures that were found.
        labels: Where the labels come from; None if there are none.
        task: What the drop is measured by, and why; None with a metric of the user.
        figures: Further figures of the task, of the new model, each with its interval.
        old_figures: The same of the old model, where they need labels alone; else empty.
        changed: Some samples whose answer the new model changes, the most changed first.
        changed_samples: Number of all samples whose answer it changes; None if they were not counted.
        old_confusion: Label, predicted class and number of samples of the old model.
        new_confusion: The same of the new model.
        old_by_class: Label, number of samples and of right ones of the old model.
        new_by_class: The same of the new model.
        speed_runtimes: What ran the old and the new model for the speed: ``ort``, or ``litert`` if one of them is a
            `.tflite` file and LiteRT has the operators of the other.
        speed_interval: 95 % interval of the speed; 0 and infinity if runs take too long for one.
    """

    old: str
    new: str
    samples: int
    head: str
    old_accuracy: Accuracy | None
    new_accuracy: Accuracy | None
    outputs: Mapping[str, Fidelity]
    drop: Drop
    old_bytes: int
    new_bytes: int
    speed: float
    preprocessing: Mapping[str, Any]
    budget: Budget | None = None
    skipped: tuple[tuple[str, str], ...] = ()
    suspects: tuple[Diagnosis, ...] = ()
    labels: Labelling | None = None
    task: TaskChoice | None = None
    figures: tuple[Figure, ...] = ()
    old_figures: tuple[Figure, ...] = ()
    changed: tuple[ChangedSample, ...] = ()
    changed_samples: int | None = None
    old_confusion: tuple[tuple[int, int, int], ...] = ()
    new_confusion: tuple[tuple[int, int, int], ...] = ()
    old_by_class: tuple[tuple[int, int, int], ...] = ()
    new_by_class: tuple[tuple[int, int, int], ...] = ()
    speed_runtimes: tuple[str, str] = ("ort", "ort")
    speed_interval: Interval = (0.0, math.inf)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know before any figure."""
        return tuple(map(str, self.suspects))
