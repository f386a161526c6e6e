"""Effort: how many samples and runs each decision may take. `docs/performance.md` says what each costs and gains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

EffortName = Literal["fast", "default", "best"]


@dataclass(frozen=True)
class Effort:
    """The samples and runs of each decision.

    Attributes:
        measuring_samples: Samples that measure channels for equalization.
        comparison_samples: Samples that compare forms of equalization. Each number is one stage of a race: it ends as
            soon as a stage decides. No number: no equalization.
        comparison_folds: Folds of the cross-validation that compares forms; each needs ranges of its own.
        range_samples: Samples that evaluate range methods.
        range_runs: Combinations of range methods that are measured, at most; 0: the fallback method everywhere.
        range_checks: After so many samples, a combination that is not better so far is rejected.
        all_methods: Whether forms are compared with every range method, not only with the fallback method.
        outlier_samples: Samples for outlier splitting; 0: none.
        compensate: Whether error compensation is tried.
    """

    measuring_samples: int
    comparison_samples: tuple[int, ...]
    comparison_folds: int
    range_samples: int
    range_runs: int
    range_checks: tuple[int, ...]
    all_methods: bool
    outlier_samples: int
    compensate: bool


DEFAULT_EFFORT: Final = "default"
EFFORTS: Mapping[EffortName, Effort] = {
    "fast": Effort(
        measuring_samples=0,
        comparison_samples=(),
        comparison_folds=0,
        range_samples=0,
        range_runs=0,
        range_checks=(),
        all_methods=False,
        outlier_samples=0,
        compensate=False,
    ),
    "default": Effort(
        measuring_samples=128,
        comparison_samples=(16, 32, 64, 128),
        comparison_folds=2,
        range_samples=32,
        range_runs=12,
        range_checks=(4, 8, 16),
        all_methods=False,
        outlier_samples=32,
        compensate=True,
    ),
    "best": Effort(
        measuring_samples=256,
        comparison_samples=(128,),
        comparison_folds=4,
        range_samples=32,
        range_runs=24,
        range_checks=(),
        all_methods=True,
        outlier_samples=64,
        compensate=True,
    ),
}
