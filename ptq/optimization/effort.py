"""Effort: how many samples and runs each decision may take. `docs/performance.md` says what each costs and gains."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

EffortName = Literal["fast", "default", "best"]

MEASURED_VALUES = 2**27
"""Values of all channels that equalize well: the fewer values a sample has, the more samples are needed."""
COMPARED_VALUES = 2**25
"""Values that decide between candidates. The scales of a small network turn its error by half a decibel by chance."""
SUFFICIENT_VALUES = 10**8
"""Values after which a comparison ends: candidates that still differ by little then give the same accuracy."""


@dataclass(frozen=True)
class Effort:
    """The samples and runs of each decision.

    Attributes:
        measuring_samples: Samples that measure channels for equalization; each number is one stage. The stages end
            when `MEASURED_VALUES` are seen.
        comparison_samples: Samples that compare equalized candidates. Each number is one stage of a race: it ends as
            soon as a stage decides. Stages with fewer than `COMPARED_VALUES` are skipped. No number: no equalization.
        range_samples: Samples that evaluate range methods; each number is one stage. The next one starts when a
            method is not rejected.
        range_runs: Combinations of range methods that are measured, at most; 0: the fallback method everywhere.
        range_checks: After so many samples, range methods that are not better so far are rejected.
        outlier_samples: Samples for outlier splitting; 0: none.
        validated_inputs: The damping of second-order rounding is chosen for sums of so many inputs, at most; that of
            longer ones is fixed.
        compensate: Whether error compensation is tried.
        samples_per_attributed: The error is attributed on one of so many calibration samples, at least 2 and at most
            16; 0: not at all, and all nodes that may be int8 are.
        decision_samples: Samples on which changed decisions are counted, at most.
        reported_samples: Samples that the report measures if they all set ranges too, at most; 0: all of them.
    """

    measuring_samples: tuple[int, ...]
    comparison_samples: tuple[int, ...]
    range_samples: tuple[int, ...]
    range_runs: int
    range_checks: tuple[int, ...]
    outlier_samples: int
    validated_inputs: float
    compensate: bool
    samples_per_attributed: int
    decision_samples: int
    reported_samples: int


DEFAULT_EFFORT: Final = "default"
EFFORTS: Mapping[EffortName, Effort] = {
    "fast": Effort(
        measuring_samples=(),
        comparison_samples=(),
        range_samples=(),
        range_runs=0,
        range_checks=(),
        outlier_samples=0,
        validated_inputs=256,
        compensate=False,
        samples_per_attributed=0,
        decision_samples=16,
        reported_samples=16,
    ),
    "default": Effort(
        measuring_samples=(24, 32, 64, 128, 256, 512),
        comparison_samples=(8, 16, 32, 64, 128, 256),
        range_samples=(8, 24),
        range_runs=12,
        range_checks=(2, 4, 8, 16),
        outlier_samples=32,
        validated_inputs=512,
        compensate=True,
        samples_per_attributed=64,
        decision_samples=16,
        reported_samples=0,
    ),
    "best": Effort(
        measuring_samples=(512,),
        comparison_samples=(256,),
        range_samples=(32,),
        range_runs=24,
        range_checks=(),
        outlier_samples=64,
        validated_inputs=math.inf,
        compensate=True,
        samples_per_attributed=16,
        decision_samples=64,
        reported_samples=0,
    ),
}
