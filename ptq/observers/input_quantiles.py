"""Quantiles of the values of a model's inputs over the calibration samples, small enough for a model's metadata."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptq.observers.histogram_cells import build_histogram_cells
from ptq.observers.stats import TensorStats

LEVELS = tuple(k / 20 for k in range(21))
"""From the minimum to the maximum in steps of 5 %."""
_DIGITS = 4
"""Significant digits."""
_MASK_VALUES = 2
"""So many distinct values are those of a mask, which has no scale. A constant is kept: other samples may vary."""


@dataclass(frozen=True)
class InputQuantiles:
    """Values of the inputs of a model over its calibration samples.

    Attributes:
        samples: Number of the samples.
        values: Quantiles at ``LEVELS`` of each floating-point input, by its name.
    """

    samples: int
    values: Mapping[str, tuple[float, ...]]

    @classmethod
    def from_statistics(
        cls, names: Iterable[str], stats: Mapping[str, TensorStats], samples: int
    ) -> InputQuantiles:
        """Quantiles of the inputs that calibration observed."""
        found = {name: _find_quantiles(stats[name]) for name in names if name in stats}
        return cls(samples, {name: values for name, values in found.items() if values})

    @classmethod
    def from_record(cls, record: Mapping[str, Any] | None) -> InputQuantiles | None:
        """The inverse of ``to_record``; None if the record has none, or others than this version writes."""
        if record is None or not isinstance(record.get("calibration_inputs"), dict):
            return None
        samples, values = record.get("calibration_samples"), record["calibration_inputs"]
        sound = type(samples) is int and samples > 0 and all(map(_are_quantiles, values.values()))
        return cls(samples, {k: tuple(v) for k, v in values.items()}) if sound else None  # type: ignore[arg-type]

    def to_record(self) -> dict[str, list[float]]:
        """The values as entries of a record."""
        return {name: list(values) for name, values in sorted(self.values.items())}


def _find_quantiles(stats: TensorStats) -> tuple[float, ...]:
    if not stats.count or (stats.values is not None and len(stats.values) == _MASK_VALUES):
        return ()
    cells = build_histogram_cells(stats)
    reached = np.cumsum(cells.counts) / cells.total_count
    inner = [
        cells.lo[min(int(np.searchsorted(reached, level)), len(reached) - 1)]
        for level in LEVELS[1:-1]
    ]
    values = (stats.min, *inner, stats.max)
    return tuple(float(f"{float(value):.{_DIGITS}g}") for value in values)


def _are_quantiles(values: Any) -> bool:
    if not isinstance(values, list) or len(values) != len(LEVELS):
        return False
    numbers = all(type(v) in (int, float) and math.isfinite(v) for v in values)
    return numbers and values == sorted(values)
