"""Task ``classify``: one class for each sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ptq.evaluation.drop import AGREEMENT
from ptq.evaluation.metrics import is_scores
from ptq.evaluation.tasks.task import (
    Arrays,
    Counts,
    CountsMeter,
    Example,
    Found,
    Ratio,
    TaskMeter,
    TaskRequest,
)


@dataclass(frozen=True)
class ClassifyTask:
    """Takes the class with the highest score.

    Attributes:
        output: Name of the output, one score for each class.
    """

    output: str
    name: Literal["classify"] = "classify"
    metric: str = AGREEMENT
    ratios: Sequence[Ratio] = ()

    def compare(self, reference: Arrays, other: Arrays, feed: Arrays) -> Counts:
        """Whether the class differs, and 1."""
        del feed
        before, after = reference[self.output], other[self.output]
        changed = before.shape != after.shape or before.argmax() != after.argmax()
        return np.array([changed, 1], np.float64)

    def start(self) -> TaskMeter:
        """A meter without samples."""
        return CountsMeter(self)


def find_classes(examples: Sequence[Example], request: TaskRequest) -> Found | None:
    """An output with one score for each class."""
    del request
    for name in examples[0].outputs:
        if all(is_scores(example.outputs[name]) for example in examples):
            size = examples[0].outputs[name].size
            return ClassifyTask(name), f"output {name} gives one score for each of {size} classes"
    return None
