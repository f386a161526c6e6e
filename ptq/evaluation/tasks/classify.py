"""Task ``classify``: one class for each sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ptq.evaluation.drop import AGREEMENT
from ptq.evaluation.metrics import best_class, is_scores, score_two_classes
from ptq.evaluation.tasks.task import (
    Arrays,
    Counts,
    CountsMeter,
    Example,
    Found,
    Ratio,
    Task,
    TaskMeter,
    TaskRequest,
    is_distribution,
)

_LOGIT, _PROBABILITY = 0.0, 0.5
"""Thresholds of two classes."""


@dataclass(frozen=True)
class ClassifyTask:
    """Takes the class with the highest score.

    Attributes:
        output: Name of the output, one score for each class, or one value for two classes.
        threshold: The value above which the class is 1, not 0; None for scores.
    """

    output: str
    threshold: float | None = None
    name: Literal["classify"] = "classify"
    metric: str = AGREEMENT
    ratios: Sequence[Ratio] = ()

    def decode(self, output: NDArray[Any]) -> int:
        """The class; `NO_CLASS` of NaN alone."""
        if self.threshold is not None:
            output = score_two_classes(output, self.threshold)
        return best_class(output)

    def shows_classes(self, output: NDArray[Any]) -> bool:
        """Whether values show that these are scores."""
        return is_distribution(output.reshape(-1))

    def compare(self, reference: Arrays, other: Arrays, feed: Arrays) -> Counts:
        """Whether the class differs, and 1."""
        del feed
        before, after = reference[self.output], other[self.output]
        changed = before.shape != after.shape or self.decode(before) != self.decode(after)
        return np.array([changed, 1], np.float64)

    def start(self) -> TaskMeter:
        """A meter without samples."""
        return CountsMeter(self)


def find_classes(examples: Sequence[Example], request: TaskRequest) -> Found | None:
    """An output with one score for each class; one value if labels are 0 and 1, or if classes are asked for."""
    for name in examples[0].outputs:
        if all(is_scores(example.outputs[name]) for example in examples):
            return ClassifyTask(name), describe_scores(name, examples[0].outputs[name].size)
    labels = {label for example in examples for label in example.labels}
    if not (labels or request.asked) or not labels <= {0, 1}:
        return None
    for name in examples[0].outputs:
        values = [example.outputs[name] for example in examples]
        if all(value.size == 1 and value.dtype.kind == "f" for value in values):
            is_probability = all(0 <= value.item() <= 1 for value in values)
            threshold = _PROBABILITY if is_probability else _LOGIT
            return ClassifyTask(name, threshold), (
                f"output {name} gives one {'probability' if is_probability else 'logit'}: "
                f"class 1 above {threshold:g}, else class 0"
            )
    return None


def list_candidates(task: Task, example: Example) -> list[Task]:
    """The task; of several outputs with scores one for each, because the labels of all samples choose among them."""
    if not isinstance(task, ClassifyTask) or task.threshold is not None:
        return [task]
    return [ClassifyTask(name) for name, array in example.outputs.items() if is_scores(array)]


def describe_scores(output: str, classes: int) -> str:
    """What a task with scores is recognized by."""
    return f"output {output} gives one score for each of {classes} classes"
