"""Jacob et al. 2018, sections 2.1 to 2.4, statement by statement.

Oracles: exact rational arithmetic (fractions), Python's integers, and the paper's formulas written out as loops.
"""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import Any, ClassVar

import numpy as np
import pytest
from factored_product import compute_factored_product
from hypothesis import given
from hypothesis import strategies as st
from listed_fixed_point import listed_divide, listed_high_mul
from networks import build_network, gaussian_array, quantize_network
from sites import run_node, uint8_params

from ptq.core.types import INT8, UINT8, QType, QuantParams, Range
from ptq.executor.arithmetics import gemmlowp
from ptq.kernels.fixed_point import (
    INT32_MAX,
    INT32_MIN,
    divide_by_power_of_two,
    doubling_high_mul,
    multiply,
    quantize_multiplier,
)
from ptq.observers.qparams import compute_asymmetric_qparams

scales = st.floats(2.0**-20, 2.0**4, width=32)
int32s = st.integers(INT32_MIN, INT32_MAX)


def nearest_away(value: Fraction) -> int:
    return floor(abs(value) + Fraction(1, 2)) * (1 if value >= 0 else -1)


@given(st.floats(-100, 0), st.floats(0, 100), st.sampled_from([INT8, UINT8]))
def test_zero_is_exactly_representable(lo: float, hi: float, qtype: Any) -> None:
    params = compute_asymmetric_qparams(Range(lo, hi), qtype)
    zero = np.array([int(params.zero_point)], qtype.dtype)
    assert params.dequantize(zero)[0] == 0.0
    assert params.quantize([0.0])[0] == zero[0]


@given(scales, st.integers(0, 255), st.integers(0, 255))
def test_the_map_from_integer_to_real_is_affine(scale: float, zero: int, q: int) -> None:
    params = QuantParams.per_tensor(scale, zero, UINT8)
    real = params.dequantize(np.array([q], np.uint8))[0]
    assert real == np.float32(Fraction(np.float32(scale).item()) * (q - zero))


def test_the_zero_point_has_the_type_of_the_quantized_value() -> None:
    for qtype in (INT8, UINT8):
        for lo, hi in ((-3.0, 0.0), (0.0, 5.0), (-1.0, 7.0), (0.0, 0.0)):
            zero = int(compute_asymmetric_qparams(Range(lo, hi), qtype).zero_point)
            assert qtype.lo <= zero <= qtype.hi


def test_every_array_has_parameters_of_its_own_and_one_set_for_all_its_values() -> None:
    model = build_network(
        "h = Conv(x, v)\ny = Conv(h, w)",
        v=gaussian_array(4, 3, 3, 3),
        w=gaussian_array(2, 4, 1, 1, seed=1),
    )
    plan = quantize_network(model, target="gemmlowp", per_tensor=True).plan
    assert {p.scale.ndim for p in plan.tensors.values()} == {0}
    assert {p.scale.ndim for p in plan.operands.values()} == {0}
    assert len({float(p.scale) for p in plan.tensors.values()}) == len(plan.tensors)


@given(st.tuples(scales, scales, scales), st.integers(0, 2**31), st.integers(0, 255))
def test_equation_4_is_equation_3_solved_for_the_output(
    three: tuple[float, float, float], seed: int, z3: int
) -> None:
    rng = np.random.default_rng(seed)
    s1, s2, s3 = (Fraction(s) for s in three)
    q1, q2 = rng.integers(0, 256, 5), rng.integers(0, 256, 5)
    z1, z2 = rng.integers(0, 256, 2)
    real = sum(s1 * int(a - z1) * s2 * int(b - z2) for a, b in zip(q1, q2, strict=True))
    multiplier = s1 * s2 / s3
    q3 = z3 + multiplier * sum(int(a - z1) * int(b - z2) for a, b in zip(q1, q2, strict=True))
    assert s3 * (q3 - z3) == real


@given(st.floats(2.0**-30, 2.0**20))
def test_the_multiplier_is_a_power_of_two_times_a_number_from_one_half_to_below_one(
    real: float,
) -> None:
    m, shift = (int(v) for v in quantize_multiplier(real))
    assert Fraction(1, 2) <= Fraction(m, 2**31) < 1
    nearest = Fraction(real) / Fraction(2) ** shift * 2**31
    assert abs(m - nearest) <= Fraction(1, 2)


@given(st.floats(2.0**-30, 2.0**20))
def test_the_integer_multiplier_is_at_least_2_to_the_30_and_has_30_bits_of_relative_accuracy(
    real: float,
) -> None:
    m, shift = (int(v) for v in quantize_multiplier(real))
    assert m >= 2**30
    written = m * Fraction(2) ** (shift - 31)
    assert abs(written - Fraction(real)) <= Fraction(real) / 2**30


def test_erratum_the_multiplier_may_be_one_and_more() -> None:
    """The paper finds M in (0, 1) by experience, and n non-negative; nothing forces it.

    M = S1·S2/S3 ≥ 1 as soon as the output is finer than the accumulator: here S1 = S2 = 1/2, S3 = 1/8, M = 2, so
    that M_0 = 1/2 and n = −2, a shift to the left before the product.
    """
    m, shift = quantize_multiplier(0.5 * 0.5 / 0.125)
    assert (int(m), int(shift)) == (2**30, 2)
    q1, q2 = np.array([[3, 5]], np.uint8), np.array([[2], [4]], np.uint8)
    operands = [(q1, uint8_params(0.5, 1)), (q2, uint8_params(0.5, 1))]
    out = run_node("gemmlowp", "MatMul", operands, uint8_params(0.125, 10), constants=[1])
    assert out.item() == 10 + 2 * ((3 - 1) * (2 - 1) + (5 - 1) * (4 - 1))


@given(int32s, st.integers(0, 31))
def test_the_shift_by_n_rounds_to_the_nearest(x: int, n: int) -> None:
    result = int(divide_by_power_of_two(np.int64(x), n))
    assert result == nearest_away(Fraction(x, 2**n)) == listed_divide(x, n)


@given(int32s, int32s)
def test_the_high_product_is_the_listed_code(a: int, b: int) -> None:
    assert int(doubling_high_mul(np.int64(a), b)) == listed_high_mul(a, b)


@given(int32s, st.integers(2**30, INT32_MAX))
def test_erratum_both_nudges_are_one_rounding_whose_ties_go_towards_plus_infinity(
    a: int, m: int
) -> None:
    """The text reads the two nudges as rounding by sign; together with C's truncation they are one rule.

    For ab < 0 the quotient (ab + 1 − 2^30) / 2^31 is truncated upwards: trunc(v) = ceil(v) = floor(v + 1 − 2^-31),
    which is floor((ab + 2^30) / 2^31). So it is floor(ab / 2^31 + 1/2) for either sign; −1/2 becomes 0, not −1.
    """
    assert int(doubling_high_mul(np.int64(a), m)) == floor(Fraction(a * m, 2**31) + Fraction(1, 2))
    assert int(doubling_high_mul(np.int64(-1), 2**30)) == 0
    assert int(doubling_high_mul(np.int64(1), 2**30)) == 1


def test_the_only_overflow_of_the_high_product_saturates() -> None:
    assert int(doubling_high_mul(np.int64(INT32_MIN), INT32_MIN)) == INT32_MAX


@given(int32s, st.floats(2.0**-30, 0.999))
def test_the_product_with_the_multiplier_is_high_product_and_shift(x: int, real: float) -> None:
    m, shift = (int(v) for v in quantize_multiplier(real))
    expected = listed_divide(listed_high_mul(x, m), -shift)
    assert int(multiply(np.int64(x), m, shift)) == expected
    assert abs(expected - Fraction(x) * Fraction(real)) < Fraction(3, 2)


@given(st.integers(0, 2**31), st.integers(0, 255), st.integers(0, 255))
def test_equations_7_to_9_are_equation_4(seed: int, z1: int, z2: int) -> None:
    rng = np.random.default_rng(seed)
    m, n, p = rng.integers(1, 9, 3)
    q1 = rng.integers(0, 256, (m, n), np.uint8)
    q2 = rng.integers(0, 256, (n, p), np.uint8)
    direct = (q1.astype(int) - z1) @ (q2.astype(int) - z2)
    np.testing.assert_array_equal(compute_factored_product(q1, z1, q2, z2), direct)


def test_the_core_of_the_factored_form_knows_no_zero_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equation 9: what costs 2N³ operations is the same product that symmetric quantization needs."""
    seen: list[Any] = []

    def core(a: Any, b: Any) -> Any:
        seen.extend([a, b])
        return a.astype(np.int64) @ b.astype(np.int64)

    monkeypatch.setattr(gemmlowp, "multiply_exactly", core)
    q1, q2 = np.full((2, 3), 200, np.uint8), np.full((3, 2), 7, np.uint8)
    for zeros in ((0, 0), (130, 5)):
        compute_factored_product(q1, zeros[0], q2, zeros[1])
        assert seen[-2] is q1
        assert seen[-1] is q2


class Counted(np.ndarray[Any, Any]):
    """An array that notes every ufunc on it: name, method, and elements that go in."""

    notes: ClassVar[list[tuple[str, str, int]]] = []

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        self.notes.append((ufunc.__name__, method, max(np.size(i) for i in inputs)))
        plain = [np.asarray(i) for i in inputs]
        return np.asarray(getattr(ufunc, method)(*plain, **kwargs)).view(Counted)


def test_the_sums_of_equation_8_need_2n_squared_additions_and_no_subtraction_is_of_n_cubed() -> (
    None
):
    n = 6
    q1 = np.arange(n * n, dtype=np.uint8).reshape(n, n).view(Counted)
    Counted.notes.clear()
    compute_factored_product(q1, 3, q1, 5)
    sums = [size for name, method, size in Counted.notes if (name, method) == ("add", "reduce")]
    assert sum(sums) == 2 * n**2
    assert max(size for _, _, size in Counted.notes) == n**2
    assert [name for name, _, _ in Counted.notes].count("matmul") == 1


@given(st.integers(2, 16), st.floats(-100, 0), st.floats(0.1, 100), st.booleans())
def test_b_bit_quantization_has_integers_of_b_bits(
    bits: int, lo: float, hi: float, signed: bool
) -> None:
    least = -(2 ** (bits - 1)) if signed else 0
    stored = QType(8 if bits <= 8 else 16, signed, least, least + 2**bits - 1)
    params = compute_asymmetric_qparams(Range(lo, hi), stored)
    q = params.quantize(np.linspace(lo, hi, 7)).astype(int)
    assert stored.lsb_count == 2**bits - 1
    assert least <= q.min() <= q.max() <= least + 2**bits - 1
    # both ends stand at most one step from the ends of the integers: the zero point is rounded
    assert q.min() <= least + 1
    assert q.max() >= least + 2**bits - 2
