"""Round numbers along an axis of a plot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_INTERVALS = 5
"""Intervals of an axis, about."""


@dataclass(frozen=True)
class Axis:
    """An axis from one number to another.

    Attributes:
        label: What it measures, with its unit.
        lo: Its low end.
        hi: Its high end.
        ticks: Numbers at which it is marked, each with its text.
    """

    label: str
    lo: float
    hi: float
    ticks: tuple[tuple[float, str], ...]

    def locate(self, value: float, start: float, end: float) -> float:
        """The place of a value on a line from ``start`` to ``end``."""
        return start + (value - self.lo) / (self.hi - self.lo) * (end - start)


def choose_axis(label: str, values: Sequence[float]) -> Axis:
    """An axis whose ends are round numbers around all finite values."""
    finite = [value for value in values if math.isfinite(value)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    if low == high:
        low, high = low - 0.5, high + 0.5
    raw = (high - low) / _INTERVALS
    unit = 10 ** math.floor(math.log10(raw))
    step = unit * next(s for s in _STEPS if s * unit >= raw * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    digits = max(0, -math.floor(math.log10(step) + 1e-9) + (step / unit == 2.5))
    ticks = tuple((k * step, f"{k * step:.{digits}f}") for k in range(first, last + 1))
    return Axis(label, first * step, last * step, ticks)
