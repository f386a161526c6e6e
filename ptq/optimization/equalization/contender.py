"""A candidate in the race of `ptq.optimization.equalization.candidates`, and the rule that ends the race."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from ptq.calibration.calibration import FOLDS, HALF, CrossValidationFold, list_tensors_to_collect
from ptq.calibration.observe_splits import observe_splits
from ptq.core.run_options import RunOptions
from ptq.data import Sample, Samples
from ptq.evaluation.intervals import CONFIDENCE, bootstrap_sums
from ptq.observers.calibration_file import Calibration
from ptq.optimization.equalization.candidate_evaluation import CandidateEvaluation
from ptq.optimization.equalization.candidate_statistics import HALVES
from ptq.rewrite.prepare.prepare import PreparedModel

_EQUIVALENT_DB = 0.2
"""A difference of errors that does not matter."""
_TINY = 1e-300


@dataclass(eq=False)
class Contender:
    """A candidate in the race, or the plain model.

    Attributes:
        candidate: The model.
        required: The factor by which its error counts; above 1 for a candidate that takes time.
        splits: The statistics of the samples of each fold so far.
        halves: The statistics of each half of the samples if they follow from the plain model's; else empty, and
            the samples of each stage are observed.
        known: Statistics of more samples than those compared, which set the ranges of all folds; None for none.
        errors: For each stage, the output error of each sample.
        evaluation: Measures the errors; None before the first stage, and if it is not kept between stages.
    """

    candidate: PreparedModel
    required: float
    splits: list[Calibration] = field(default_factory=list)
    halves: list[Calibration] = field(default_factory=list)
    known: Calibration | None = None
    errors: list[NDArray[np.float64]] = field(default_factory=list)
    evaluation: CandidateEvaluation | None = None

    @property
    def is_observed(self) -> bool:
        """Whether the statistics are known before the first stage."""
        return self.known is not None or bool(self.halves)

    def observe(self, samples: Sequence[Sample], folds: Sequence[int], run: RunOptions) -> None:
        """Add samples, each of a fold, to the statistics, unless these are known already.

        Raises:
            DataError: The model fails on a sample; the text names it.
        """
        if self.is_observed:
            return
        graph, pairs = self.candidate.graph, list(zip(samples, folds, strict=True))
        count = len(self.splits) or (FOLDS if any(folds) else 1)  # a later stage may lack a fold
        names = [[s.name for s, of in pairs if of == fold] for fold in range(count)]
        found = observe_splits(graph, samples, list_tensors_to_collect(graph), names, run=run)
        merged = zip(self.splits, found, strict=True) if self.splits else ()
        self.splits = [before.merge(after) for before, after in merged] or found

    def count_values(self, samples: int) -> int:
        """How many values so many samples have."""
        parts = [self.known] if self.known is not None else self.halves or self.splits
        counts = [stats.count for part in parts for stats in part.tensors.values()]
        return sum(counts) * samples // max(sum(part.samples for part in parts), 1)

    def to_folds(self, samples: Samples) -> tuple[list[CrossValidationFold], Calibration]:
        """The folds of the cross-validation, and all statistics; one fold alone evaluates its own ranges.

        Two folds share the ranges that the other two set: ranges take time.
        """
        if self.known is not None:
            return [CrossValidationFold(self.known, samples)] * FOLDS, self.known
        if self.halves:
            rests = [self.halves[(fold + 1) % HALVES] for fold in range(FOLDS)]
            return [CrossValidationFold(rest, samples) for rest in rests], reduce(
                Calibration.merge, self.halves
            )
        whole, splits = reduce(Calibration.merge, self.splits), self.splits
        if len(splits) < FOLDS:
            return [CrossValidationFold(whole, samples)], whole
        upper, lower = (reduce(Calibration.merge, part) for part in (splits[HALF:], splits[:HALF]))
        return [CrossValidationFold(upper, samples)] * HALF + [
            CrossValidationFold(lower, samples)
        ] * HALF, whole

    def weighted_mean(self) -> float:
        """The mean error of the last stage, as it counts in the comparison."""
        return float(self.errors[-1].mean()) * self.required


def is_decided(best: Contender, other: Contender) -> bool:
    """Whether the other contender is not better than the best one by more than what matters.

    The bound is the one-sided one of a bootstrap over samples. Where the best one takes more time than the other
    one, everything matters.
    """
    tolerance = 0.0 if best.required > other.required else _EQUIVALENT_DB
    both = np.stack([c.errors[-1] * c.required for c in (best, other)], axis=1)
    draws = bootstrap_sums(both) + _TINY
    losses_db = 10 * np.log10(draws[:, 0] / draws[:, 1])
    return bool(np.quantile(losses_db, CONFIDENCE) < tolerance)
