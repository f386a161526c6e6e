"""Fixed-point primitives against Python's unbounded integers and exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptq.kernels.fixed_point import (
    INT32_MAX,
    INT32_MIN,
    divide_by_power_of_two,
    doubling_high_mul,
    multiply,
    multiply_by_power_of_two,
    quantize_multiplier,
    rescale,
)

int32 = st.integers(INT32_MIN, INT32_MAX)


def truncated(dividend: int, divisor: int) -> int:
    """Division as C does it."""
    quotient = abs(dividend) // divisor
    return quotient if dividend >= 0 else -quotient


def high_mul(a: int, b: int) -> int:
    """gemmlowp's SaturatingRoundingDoublingHighMul, word by word, in unbounded integers."""
    if a == b == INT32_MIN:
        return INT32_MAX
    nudge = 2**30 if a * b >= 0 else 1 - 2**30
    return truncated(a * b + nudge, 2**31)


def half_away(x: Fraction) -> int:
    whole = abs(x) + Fraction(1, 2)
    return int(whole // 1) if x >= 0 else -int(whole // 1)


def scalar(x: int) -> np.ndarray:
    return np.array([x], np.int64)


@given(int32, int32)
def test_doubling_high_mul_is_gemmlowps(a: int, b: int) -> None:
    assert doubling_high_mul(scalar(a), scalar(b)).item() == high_mul(a, b)


@given(st.integers(-(2**20), 2**20))
def test_doubling_high_mul_rounds_ties_up(k: int) -> None:
    # (2k + 1) · 2^30 / 2^31 = k + 1/2
    assert doubling_high_mul(scalar(2 * k + 1), 2**30).item() == k + 1


def test_doubling_high_mul_of_the_least_integer_with_itself_saturates() -> None:
    assert doubling_high_mul(scalar(INT32_MIN), scalar(INT32_MIN)).item() == INT32_MAX
    assert doubling_high_mul(scalar(INT32_MIN), scalar(INT32_MAX)).item() == -INT32_MAX


@given(int32, st.integers(0, 31))
def test_division_by_a_power_of_two_rounds_ties_away_from_zero(x: int, exponent: int) -> None:
    exact = half_away(Fraction(x, 2**exponent))
    assert divide_by_power_of_two(scalar(x), exponent).item() == exact


@given(int32, st.integers(-31, 31))
def test_multiplication_by_a_power_of_two_saturates(x: int, exponent: int) -> None:
    exact = half_away(Fraction(x) * Fraction(2) ** exponent)
    got = multiply_by_power_of_two(scalar(x), exponent).item()
    assert got == min(max(exact, INT32_MIN), INT32_MAX)


@given(st.floats(2.0**-32, 2.0**31, exclude_min=True))
def test_a_quantized_multiplier_is_within_half_a_unit_of_31_bits(real: float) -> None:
    multiplier, shift = (int(v) for v in quantize_multiplier(real))
    assert 2**30 <= multiplier < 2**31
    unit = Fraction(2) ** (shift - 31)
    assert abs(multiplier * unit - Fraction(real)) <= unit / 2


def test_tpu_mlirs_example_has_the_published_multiplier() -> None:
    # TPU-MLIR's quantization guide: 0.1234 = 2119995857 / 2^34
    multiplier, shift = quantize_multiplier(0.1234)
    assert (int(multiplier), 31 - int(shift)) == (2119995857, 34)


@pytest.mark.parametrize(
    ("real", "expected"),
    [
        (0.0, (0, 0)),
        (1.0, (2**30, 1)),
        (0.5, (2**30, 0)),
        (1 - 2.0**-40, (2**30, 1)),
        (2.0**-32, (2**30, -31)),
        (2.0**-33, (0, 0)),
    ],
)
def test_multipliers_at_the_ends_carry_or_flush(real: float, expected: tuple[int, int]) -> None:
    multiplier, shift = quantize_multiplier(real)
    assert (int(multiplier), int(shift)) == expected


@given(int32, st.integers(2**30, 2**31 - 1), st.integers(-31, 0))
def test_multiply_rounds_twice(x: int, multiplier: int, shift: int) -> None:
    exact = half_away(Fraction(high_mul(x, multiplier), 2**-shift))
    assert multiply(scalar(x), multiplier, shift).item() == exact


@given(int32, st.integers(2**30, 2**31 - 1), st.integers(-31, 0))
def test_multiply_is_within_three_quarters_of_the_exact_product(
    x: int, multiplier: int, shift: int
) -> None:
    bound = Fraction(1, 2) + (Fraction(2) ** (shift - 1) if shift < 0 else 0)
    exact = Fraction(x * multiplier) * Fraction(2) ** (shift - 31)
    assert abs(multiply(scalar(x), multiplier, shift).item() - exact) <= bound


@given(st.integers(-(2**15), 2**15), st.integers(2**30, 2**31 - 1), st.integers(1, 14))
def test_multiply_shifts_left_before_it_multiplies(x: int, multiplier: int, shift: int) -> None:
    assert multiply(scalar(x), multiplier, shift).item() == high_mul(x << shift, multiplier)


def test_a_multiplier_a_channel_is_that_channels_multiplier() -> None:
    x = np.random.default_rng(0).integers(-(2**20), 2**20, (50, 4))
    reals = np.array([0.7, 0.001, 0.25, 3.0])
    each = [rescale(x[:, c], float(real)) for c, real in enumerate(reals)]
    np.testing.assert_array_equal(rescale(x, reals), np.stack(each, axis=1))


def test_int32_arrays_give_what_int64_arrays_give() -> None:
    values = np.array([2**30, 123456789, -(2**31), -7], np.int32)
    wide = values.astype(np.int64)
    for function, more in (
        (doubling_high_mul, 2**30 + 5),
        (divide_by_power_of_two, 3),
        (multiply_by_power_of_two, 2),
    ):
        found = function(values, more)  # type: ignore[arg-type] # a caller's mistake
        assert found.dtype == np.int64
        assert found.tolist() == function(wide, more).tolist()
    product = doubling_high_mul(values, values)  # type: ignore[arg-type]
    assert product.tolist() == doubling_high_mul(wide, wide).tolist()
