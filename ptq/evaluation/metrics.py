"""What is measured of a model's outputs against labels and against the float model's, sample by sample."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.decibels import sqnr_db
from ptq.evaluation import intervals
from ptq.evaluation.intervals import Interval

MIN_CLASSES_FOR_TOP5 = 20  # a top-5 score says something from there on


@dataclass(frozen=True)
class Fidelity:
    """How near an output is to the float model's, over all samples.

    Attributes:
        sqnr_db: Signal over error, in decibels; inf where they are equal.
        cosine: Mean cosine between the two, a sample at a time.
        agreement: Share of samples whose largest element stands at the same place; None for an output that
            is not one score a class.
        sqnr_interval: 95 % interval of it, over samples; None where it was not asked for.
        cosine_interval: Likewise.
        agreement_interval: Likewise.
    """

    sqnr_db: float
    cosine: float
    agreement: float | None
    sqnr_interval: Interval | None = None
    cosine_interval: Interval | None = None
    agreement_interval: Interval | None = None


@dataclass(frozen=True)
class Accuracy:
    """Agreement with labels.

    Attributes:
        top1: Share of labelled samples whose highest score is an acceptable class.
        top5: The same for the five highest; None with few classes.
        labelled: Number of labelled samples.
    """

    top1: float
    top5: float | None
    labelled: int


@dataclass
class FidelityMeter:
    """Accumulates a Fidelity."""

    signal: list[float] = field(default_factory=list)
    noise: list[float] = field(default_factory=list)
    cosines: list[float] = field(default_factory=list)
    agreements: list[bool] = field(default_factory=list)

    def add(self, reference: NDArray[Any], output: NDArray[Any]) -> None:
        """Take in one sample's output and the float model's; where that is no finite number, nothing is missed.

        An output of another shape, where values decide on it, is as far off as can be.
        """
        alike = reference.shape == output.shape
        if is_scores(reference):
            self.agreements.append(alike and int(reference.argmax()) == int(output.argmax()))
        counted = np.isfinite(reference)
        r = np.asarray(reference[counted], np.float64)
        o = np.asarray(output[counted], np.float64) if alike else r
        self.signal.append(float(r @ r))
        if not (alike and np.isfinite(o).all()):
            self.noise.append(math.inf)
            self.cosines.append(0.0)
            return
        self.noise.append(float(((r - o) ** 2).sum()))
        lengths = math.sqrt(float(r @ r) * float(o @ o))
        self.cosines.append(float(r @ o) / lengths if lengths else float(not (r - o).any()))

    def result(self) -> Fidelity:
        """What was measured."""
        columns = np.array([self.signal, self.noise, self.cosines], np.float64).T
        sums = columns.sum(axis=0)
        drawn = intervals.bootstrap_sums(columns)
        count = len(self.agreements)
        return Fidelity(
            sqnr_db=sqnr_db(*sums[:2]),
            cosine=float(sums[2]) / len(columns),
            agreement=sum(self.agreements) / count if count else None,
            sqnr_interval=intervals.percentile_interval(
                np.array([sqnr_db(*row[:2]) for row in drawn])
            ),
            cosine_interval=intervals.percentile_interval(drawn[:, 2] / len(columns)),
            agreement_interval=intervals.clopper_pearson_interval(sum(self.agreements), count)
            if count
            else None,
        )


@dataclass
class AccuracyMeter:
    """Accumulates an Accuracy."""

    top1_correct: list[bool] = field(default_factory=list)
    top5_correct: list[bool] = field(default_factory=list)

    def add(self, scores: NDArray[Any], labels: tuple[int, ...]) -> None:
        """Take in one sample's scores and its acceptable classes; none: it is left out."""
        if not labels:
            return
        flat = scores.reshape(-1) if scores.size else np.zeros(1)
        order = np.argsort(-flat, kind="stable")
        self.top1_correct.append(int(order[0]) in labels)
        if flat.size > MIN_CLASSES_FOR_TOP5:
            self.top5_correct.append(bool(set(order[:5].tolist()) & set(labels)))

    def result(self) -> Accuracy | None:
        """What was measured; None without labels."""
        if not self.top1_correct:
            return None
        fifth = float(np.mean(self.top5_correct)) if self.top5_correct else None
        return Accuracy(float(np.mean(self.top1_correct)), fifth, len(self.top1_correct))


def numeric_output(output: Any) -> NDArray[Any]:
    """The numbers of an output: a sequence's one after the other, none of strings or of what is missing."""
    if isinstance(output, np.ndarray):
        return output if output.dtype.kind in "biuf" else np.empty(0)
    items = output if isinstance(output, list) else []
    return np.concatenate([np.empty(0), *(numeric_output(item).reshape(-1) for item in items)])


def is_scores(output: NDArray[Any]) -> bool:
    """Whether one sample's output is a score for each of several classes: one axis longer than 1."""
    return output.ndim > 0 and output.size == max(output.shape) > 1
