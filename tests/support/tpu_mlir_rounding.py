"""TPU-MLIR's roundings and products in rational numbers."""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import Any

import numpy as np

from ptq.kernels.multiplier_shift import to_mantissa_and_shift


def half_up(value: Fraction) -> int:
    return floor(value + Fraction(1, 2))


def half_away(value: float) -> int:
    return int(np.trunc(value + np.copysign(0.5, value)))


def product(x: int, real: float, bits: int) -> int:
    """(x · Multiplier) >> rshift, in rational numbers."""
    m, rshift = (int(v) for v in to_mantissa_and_shift(abs(real), bits))
    return half_up(Fraction(x * m * (1 if real >= 0 else -1)) / Fraction(2) ** rshift)


def near(ours: Any, real: Any, steps: float) -> None:
    np.testing.assert_allclose(ours.astype(float), np.clip(real, -128, 127), atol=steps)
