"""The samples that second-order rounding and error compensation run."""

from __future__ import annotations

from ptq.data import Samples, spread_with_validation
from ptq.observers.calibration_file import Calibration

_MAX_SAMPLES = 256
"""Samples that are run at most; more change the covariances little."""
_MIN_SAMPLES = 32
"""Samples that are run at least, if there are as many: 8 of them validate."""
_RUN_VALUES = 2**27
"""Values of calibrated tensors after which no more samples are run: small samples are cheap, and say less."""


def choose_samples(samples: Samples, calibration: Calibration) -> tuple[Samples, frozenset[str]]:
    """The samples that weights are rounded on, and the names of the held-out ones among them."""
    training, held_out = spread_with_validation(samples, choose_sample_count(calibration))
    names = frozenset(held_out.names)
    return samples.subset({*training.names, *names}.__contains__), names


def choose_sample_count(calibration: Calibration) -> int:
    """How many calibration samples are run: the fewer, the more values each of them has."""
    values = sum(stats.count for stats in calibration.tensors.values())
    enough = _RUN_VALUES * calibration.samples // max(values, 1)
    return min(max(enough, _MIN_SAMPLES), _MAX_SAMPLES)
