"""Accuracy against labels and fidelity to the float model, sample by sample."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.decibels import to_sqnr_db
from ptq.core.wording import plural
from ptq.evaluation import intervals
from ptq.evaluation.intervals import Interval

MAX_CLASSES_WITHOUT_TOP5 = 20
"""With so many classes, or fewer, top-5 accuracy says little."""
MIN_FOR_MEDIAN = 6
"""With fewer samples, a median has no 95 % interval."""
LOSSY_DB = 15.0
"""SQNR of an output below which lost accuracy is expected."""
NO_CLASS = -1
"""The best class of scores that are all NaN."""


@dataclass(frozen=True)
class Fidelity:
    """Similarity of one output to the float model's output, over all samples.

    Attributes:
        sqnr_db: SQNR, the signal-to-quantization-noise ratio, in dB; inf if the outputs are equal, -inf if the shape
            differs on a sample, or values are not finite.
        cosine: Mean over samples of the cosine between the two outputs.
        agreement: Share of samples with the same top class, or with the same list of indices; None if the output is
            neither one score for each class nor such a list.
        sqnr_interval: 95 % interval of ``sqnr_db`` over samples; None if it was not computed.
        cosine_interval: 95 % interval of ``cosine``.
        agreement_interval: 95 % interval of ``agreement``.
        other_shapes: Number of samples on which the output has another shape than that of the float model.
        median_sqnr_db: Median of the SQNR of single samples, those with signal and an output of the same shape; None
            with fewer than six of them, or if it was not computed.
    """

    sqnr_db: float
    cosine: float
    agreement: float | None
    sqnr_interval: Interval | None = None
    cosine_interval: Interval | None = None
    agreement_interval: Interval | None = None
    other_shapes: int = 0
    median_sqnr_db: float | None = None


def describe_other_shapes(fidelity: Fidelity) -> str:
    """Why an output has no SQNR; empty if its shape is the reference's on all samples."""
    samples = fidelity.other_shapes
    return f"another shape on {plural(samples, 'sample')}" if samples else ""


@dataclass(frozen=True)
class Accuracy:
    """Accuracy against labels.

    Attributes:
        top1: Share of labelled samples whose highest score belongs to an accepted class.
        top5: Share of labelled samples with an accepted class among the five highest scores; None with few classes.
        labelled: Number of labelled samples.
    """

    top1: float
    top5: float | None
    labelled: int


@dataclass(frozen=True)
class Figure:
    """One figure of a task.

    Attributes:
        name: What it measures, for example ``character error rate``.
        value: Its value over all samples.
        interval: Its 95 % interval; −∞ … ∞ if there is none.
        is_share: Whether 1 is the whole, so that it is written in %; a metric of the user may have another scale.
        doubt: Why a user's metric has no interval; empty if too few samples define it, or if it has one.
    """

    name: str
    value: float
    interval: Interval
    is_share: bool = True
    doubt: str = ""


@dataclass
class FidelityMeter:
    """Sums of one output, from which its Fidelity follows."""

    signal: list[float] = field(default_factory=list)
    noise: list[float] = field(default_factory=list)
    cosines: list[float] = field(default_factory=list)
    agreements: list[bool] = field(default_factory=list)
    other_shapes: int = 0
    has_indices: bool = False
    """Whether the output is a list of indices: only equal ones agree."""
    undefined: int = 0
    """Samples on which the float output holds NaN."""
    newly_undefined: int = 0
    """Samples on which the output holds NaN where that of float does not."""

    def add(self, reference: NDArray[Any], output: NDArray[Any]) -> None:
        """Add one sample: the output and the float model's output.

        Elements that are not finite in the float output are left out. An output of another shape (possible if values
        decide on the shape) has infinite error and cosine 0.
        """
        same_shape = reference.shape == output.shape
        self.other_shapes += not same_shape
        if is_scores(reference):
            self.agreements.append(
                same_shape and find_best_class(reference) == find_best_class(output)
            )
        elif is_index_list(reference):
            self.has_indices = True
            self.agreements.append(np.array_equal(reference, output))
        finite = np.isfinite(reference)
        self.undefined += not finite.all() and bool(np.isnan(reference).any())
        r = np.asarray(reference[finite], np.float64)
        o = np.asarray(output[finite] if same_shape else output, np.float64).reshape(-1)
        self.newly_undefined += bool(np.isnan(o).any())
        self.signal.append(float(r @ r))
        if not (same_shape and np.isfinite(o).all()):
            self.noise.append(math.inf)
            self.cosines.append(0.0)
            return
        self.noise.append(float(((r - o) ** 2).sum()))
        lengths = math.sqrt(float(r @ r) * float(o @ o))
        self.cosines.append(float(r @ o) / lengths if lengths else float(not (r - o).any()))

    def result(self, *, has_classes: bool = True) -> Fidelity:
        """The fidelity over all samples, with intervals.

        Args:
            has_classes: Whether scores are of classes; else they have no agreement. Lists of indices always have one.
        """
        columns = np.array([self.signal, self.noise, self.cosines], np.float64).T
        sums = columns.sum(axis=0)
        drawn = intervals.bootstrap_means(columns)
        count = len(self.agreements)
        if count != len(columns) or not (has_classes or self.has_indices):
            count = 0  # a detector may give one row on some samples
        return Fidelity(
            sqnr_db=to_sqnr_db(*sums[:2]),
            cosine=float(sums[2]) / len(columns),
            agreement=sum(self.agreements) / count if count else None,
            sqnr_interval=intervals.compute_percentile_interval(
                np.array([to_sqnr_db(*row[:2]) for row in drawn])
            ),
            cosine_interval=intervals.compute_percentile_interval(drawn[:, 2]),
            agreement_interval=intervals.compute_clopper_pearson_interval(
                sum(self.agreements), count
            )
            if count
            else None,
            other_shapes=self.other_shapes,
            median_sqnr_db=self._find_median(),
        )

    def _find_median(self) -> float | None:
        pairs = zip(self.signal, self.noise, strict=True)
        alone = [to_sqnr_db(s, n) for s, n in pairs if s > 0 and math.isfinite(n)]
        return median(alone) if len(alone) >= MIN_FOR_MEDIAN else None


@dataclass
class AccuracyMeter:
    """Hits of one output, from which its Accuracy follows.

    Attributes:
        top1_correct: Whether the best class is accepted, of each labelled sample.
        top5_correct: Whether one of the five best classes is accepted.
        confusion: Number of samples by (label, best class), of samples with one label.
        labelled: Number of samples by label, of samples with one label; scores of NaN alone have no best class.
    """

    top1_correct: list[bool] = field(default_factory=list)
    top5_correct: list[bool] = field(default_factory=list)
    confusion: Counter[tuple[int, int]] = field(default_factory=Counter)
    labelled: Counter[int] = field(default_factory=Counter)

    def add(self, scores: NDArray[Any], labels: tuple[int, ...]) -> None:
        """Add one sample: its scores and its accepted classes; a sample without labels is left out."""
        if not labels:
            return
        # booleans and unsigned integers have no negative
        flat = np.asarray(scores, np.float64).reshape(-1)
        order = np.argsort(-flat, kind="stable")
        order = order[~np.isnan(flat[order])]
        best = find_best_class(scores)
        self.top1_correct.append(best in labels)
        if len(labels) == 1:
            self.labelled[labels[0]] += 1
            if best != NO_CLASS:
                self.confusion[labels[0], best] += 1
        if flat.size > MAX_CLASSES_WITHOUT_TOP5:
            self.top5_correct.append(bool(set(order[:5].tolist()) & set(labels)))

    def result(self) -> Accuracy | None:
        """The accuracy over all labelled samples; None if there is none."""
        if not self.top1_correct:
            return None
        fifth = float(np.mean(self.top5_correct)) if self.top5_correct else None
        return Accuracy(float(np.mean(self.top1_correct)), fifth, len(self.top1_correct))


def find_best_class(scores: NDArray[Any]) -> int:
    """The class with the highest score, the first of equal ones. NaN is no score; `NO_CLASS` if there is no other."""
    return int(find_best_classes(scores.reshape(-1), 0)) if scores.size else NO_CLASS


def find_best_classes(scores: NDArray[Any], axis: int) -> NDArray[np.int64]:
    """The class with the highest score along an axis, as `find_best_class` takes it; the axis is not empty."""
    best = scores.argmax(axis=axis, keepdims=True)  # the first NaN, if there is one
    if np.isnan(np.take_along_axis(scores, best, axis)).any():
        missing = np.isnan(scores)
        best = np.where(missing, -np.inf, scores).argmax(axis=axis, keepdims=True)
        best[missing.all(axis=axis, keepdims=True)] = NO_CLASS
    return np.asarray(best.squeeze(axis), np.int64)


def score_two_classes(output: NDArray[Any], threshold: float) -> NDArray[np.float64]:
    """Scores of classes 0 and 1 from one value, which is class 1 above the threshold; none from other outputs."""
    if output.size != 1:
        return np.empty(0)
    above = float(output.reshape(())) - threshold
    return np.array([-above, above])


def flatten_output(output: Any) -> NDArray[Any]:
    """Numbers of an output: sequences are concatenated; strings and missing values give none."""
    if isinstance(output, np.ndarray):
        return output if output.dtype.kind in "biuf" else np.empty(0)
    items = output if isinstance(output, list) else []
    return np.concatenate([np.empty(0), *(flatten_output(item).reshape(-1) for item in items)])


def is_scores(output: NDArray[Any]) -> bool:
    """Whether the output of one sample is one score for each class: exactly one axis is longer than 1.

    Integers of 64 bits are none: they are indices, as ONNX's TopK and ArgMax give them. Accumulators have 32 bits.
    """
    return _is_list(output) and not _has_indices(output)


def is_index_list(output: NDArray[Any]) -> bool:
    """Whether the output of one sample is a list of indices."""
    return _is_list(output) and _has_indices(output)


def _is_list(output: NDArray[Any]) -> bool:
    return output.ndim > 0 and output.size == max(output.shape) > 1


def _has_indices(output: NDArray[Any]) -> bool:
    return output.dtype == np.int64


def find_class_output(
    outputs: Sequence[str], scores: Sequence[bool], accuracies: Sequence[Accuracy | None]
) -> str:
    """Name of the output that holds class scores: the one on which the float model is most accurate.

    An output with an accuracy comes before one without, even if it is 0.
    """
    ranked = sorted(
        range(len(outputs)),
        key=lambda i: (-(a.top1 if (a := accuracies[i]) is not None else -1.0), not scores[i], i),
    )
    return outputs[ranked[0]]
