"""gemmlowp's "Building a quantization paradigm from first principles", statement by statement.

Oracles: exact rational arithmetic (fractions), Python's integers, float64.
"""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import pytest
from factored_product import compute_factored_product
from hypothesis import given
from hypothesis import strategies as st
from networks import build_network, gaussian_array, quantize_network
from sites import run_node, uint8_params

from ptq.core.targets import TARGETS
from ptq.core.types import UINT8, QuantParams, Range
from ptq.kernels.fixed_point import (
    INT32_MAX,
    INT32_MIN,
    divide_by_power_of_two,
    multiply,
    quantize_multiplier,
)
from ptq.kernels.matmul import prepare_matmul_by_constant
from ptq.observers.qparams import compute_asymmetric_qparams

rationals = st.fractions(min_value=-8, max_value=8, max_denominator=64)
TARGET = TARGETS["gemmlowp"]


@given(rationals.filter(bool), rationals, st.integers(0, 255))
def test_the_forms_1_and_2_of_the_affine_map_are_equivalent(a: Any, b: Any, q: int) -> None:
    c, d = a, b / a
    assert a * q + b == c * (q + d)


@given(rationals.filter(bool), rationals)
def test_form_1_represents_zero_only_if_minus_b_by_a_happens_to_be_an_integer(
    a: Any, b: Any
) -> None:
    zeros = [q for q in range(-600, 601) if a * q + b == 0]
    assert bool(zeros) == ((-b / a).denominator == 1 and abs(b / a) <= 600)


@given(st.floats(-100, 0), st.floats(0, 100))
def test_form_3_represents_zero_always(lo: float, hi: float) -> None:
    params = compute_asymmetric_qparams(Range(lo, hi), UINT8)
    zero_point = int(params.zero_point)
    assert 0 <= zero_point <= 255
    assert params.dequantize(np.array([zero_point], np.uint8)).item() == 0.0


def padded(filling: int) -> Any:
    """A convolution over an image whose border is explicit integers, with every weight the real 1."""
    x = np.pad(
        np.full((1, 4, 4, 1), 150, np.uint8),
        ((0, 0), (1, 1), (1, 1), (0, 0)),
        constant_values=filling,
    )
    operands = [
        (x, uint8_params(0.1, 100)),
        (np.full((1, 3, 3, 1), 11, np.uint8), uint8_params(0.1, 1)),
    ]
    return run_node("gemmlowp", "Conv", operands, uint8_params(0.5, 20), constants=[1])


def test_padding_by_the_zero_point_is_padding_by_the_real_zero() -> None:
    x = np.full((1, 4, 4, 1), 150, np.uint8)
    operands = [
        (x, uint8_params(0.1, 100)),
        (np.full((1, 3, 3, 1), 11, np.uint8), uint8_params(0.1, 1)),
    ]
    out = run_node(
        "gemmlowp", "Conv", operands, uint8_params(0.5, 20), constants=[1], pads=(1, 1, 1, 1)
    )
    np.testing.assert_array_equal(out, padded(100))
    taps = np.array([[4, 6, 6, 4], [6, 9, 9, 6], [6, 9, 9, 6], [4, 6, 6, 4]])
    np.testing.assert_array_equal(out[0, :, :, 0], np.rint(taps * 5.0 * 1.0 / 0.5 + 20))


def test_padding_by_another_value_biases_the_result() -> None:
    error = padded(103).astype(int) - padded(100)
    assert error.min() >= 0
    assert (error[0, [0, -1]] > 0).all()


scales = st.fractions(min_value=Fraction(1, 4096), max_value=4)


@given(st.tuples(scales, scales, scales), st.integers(0, 2**31))
def test_the_product_of_real_matrices_is_the_product_of_the_scales_times_the_integer_sum(
    three: Any, seed: int
) -> None:
    """Equations 4 and 5, in rational numbers."""
    lhs_scale, rhs_scale, result_scale = three
    rng = np.random.default_rng(seed)
    lhs, rhs = rng.integers(0, 256, (1, 4)), rng.integers(0, 256, (4, 1))
    lhs_zero, rhs_zero, result_zero = (int(v) for v in rng.integers(0, 256, 3))
    pairs = zip(lhs[0].tolist(), rhs[:, 0].tolist(), strict=True)
    real = sum(lhs_scale * (a - lhs_zero) * rhs_scale * (b - rhs_zero) for a, b in pairs)
    accumulator = compute_factored_product(lhs, lhs_zero, rhs, rhs_zero).item()
    assert real == lhs_scale * rhs_scale * accumulator
    result = result_zero + (lhs_scale * rhs_scale / result_scale) * accumulator
    assert result_scale * (result - result_zero) == real


@given(st.integers(0, 2**31), st.floats(1e-4, 0.5))
def test_the_quantized_product_is_equation_5_to_the_nearest(seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    lhs, rhs = rng.integers(0, 256, (3, 6), np.uint8), rng.integers(0, 256, (6, 4), np.uint8)
    a, b, y = uint8_params(0.02, 120), uint8_params(0.01, 140), uint8_params(scale, 77)
    ours = run_node("gemmlowp", "MatMul", [(lhs, a), (rhs, b)], y, constants=[1])
    accumulator = (lhs.astype(int) - 120) @ (rhs.astype(int) - 140)
    real = 77 + float(a.scale) * float(b.scale) / float(y.scale) * accumulator
    # gemmlowp rounds twice, which is at most 1/4 step beyond one rounding for a multiplier below 1
    assert np.abs(ours - np.clip(real, 0, 255)).max() <= 0.75


def test_with_zero_points_0_the_kernel_is_the_plain_integer_sum() -> None:
    """Equation 6: what remains of the sum when packing has taken the zero points out."""
    rng = np.random.default_rng(0)
    lhs, rhs = rng.integers(0, 256, (3, 6), np.uint8), rng.integers(0, 256, (6, 4), np.uint8)
    np.testing.assert_array_equal(
        compute_factored_product(lhs, 0, rhs, 0), lhs.astype(int) @ rhs.astype(int)
    )


def test_differences_of_uint8_need_int16_and_their_products_int32() -> None:
    q = np.arange(256)
    differences = q[:, None] - q[None, :]
    assert (differences.min(), differences.max()) == (-255, 255)
    assert differences.max() > np.iinfo(np.int8).max
    assert np.iinfo(np.int16).max < 255 * 255
    out = compute_factored_product(
        np.array([[0, 255]], np.uint8), 255, np.array([[255], [0]], np.uint8), 0
    )
    assert out.item() == -(255**2)


@given(st.integers(INT32_MIN, INT32_MAX), st.floats(2.0**-20, 1, exclude_max=True))
def test_a_multiplier_below_one_is_a_fixed_point_product_and_a_right_shift(
    x: int, real: float
) -> None:
    m, shift = (int(v) for v in quantize_multiplier(real))
    if m == 2**30 and shift == 1:
        shift, m = 0, 2**31 - 1  # what rounds up to 1 is the only case of a left shift
    assert Fraction(1, 2) <= Fraction(m, 2**31) < 1
    assert shift <= 0
    high = floor(Fraction(x * m, 2**31) + Fraction(1, 2))
    expected = int(divide_by_power_of_two(np.int64(high), -shift))
    assert int(multiply(np.int64(x), m, shift)) == expected


def test_relu6_makes_real_values_from_0_to_6_and_multipliers_below_one() -> None:
    model = build_network(
        "h = Conv(x, w)\ny = Clip(h, lo, hi)",
        w=gaussian_array(4, 3, 3, 3),
        lo=np.float32(0),
        hi=np.float32(6),
    )
    done = quantize_network(model, target="gemmlowp")
    y = done.plan.tensors["y"]
    assert int(y.zero_point) == 0
    assert float(y.scale) * 255 <= 6.0001
    (weight,) = (p for (_, at), p in done.plan.operands.items() if at == 1)
    assert (done.plan.tensors["x"].scale * weight.scale / y.scale < 1).all()


def test_erratum_it_is_not_safe_to_assume_a_multiplier_below_one() -> None:
    """The text: "it is safe to assume". It follows only if the output's scale exceeds the product of the others'.

    An output whose range is narrow, such as differences that cancel, has a small one. The pipeline's second stage
    (ScaleInt32ByFixedPointAndExponent) shifts to the left then, and so do we; the same with the left operand's
    scale as large as 1.
    """
    operands = [
        (np.array([[9, 4]], np.uint8), uint8_params(1.0, 5)),
        (np.array([[3], [1]], np.uint8), uint8_params(0.5, 2)),
    ]
    out = run_node("gemmlowp", "MatMul", operands, uint8_params(0.1, 100), constants=[1])
    assert out.item() == 100 + 5 * ((9 - 5) * (3 - 2) + (4 - 5) * (1 - 2))


@pytest.mark.parametrize("q", [255, 0])
def test_an_accumulator_beyond_int32_after_the_left_shift_saturates_as_its_output_does(
    q: int,
) -> None:
    """Shifted by 10 bits, 2^23 leaves int32; wrapped, the output would come out of the wrong end."""
    lhs, rhs = np.full((1, 130), q, np.uint8), np.full((130, 1), 255, np.uint8)
    operands = [(lhs, uint8_params(1.0, 128)), (rhs, uint8_params(1.0, 0))]
    out = run_node("gemmlowp", "MatMul", operands, uint8_params(1 / 1000, 7), constants=[1])
    assert out.item() == q


def test_the_target_is_uint8_with_both_zero_points() -> None:
    assert UINT8 == TARGET.activation == TARGET.weight
    assert TARGET.weight_zero_point
    assert not TARGET.per_channel
    assert TARGET.arithmetic == "gemmlowp"


def legacy_stage(acc: int, offset: int, mult: int, shift: int) -> int:
    """OutputStageQuantizeDownInt32ToUint8Scale: offset first, a plain int32 product, a rounding shift."""
    product = (acc + offset) * mult
    wrapped = (product + 2**31) % 2**32 - 2**31
    return (wrapped + (1 << shift >> 1)) >> shift


def test_the_legacy_stage_overflows_int32_and_the_new_one_does_not() -> None:
    """acc · mult = 10^6 · 3000 > 2^31 turns negative; a fixed-point product has only its high half."""
    acc, mult, shift = 10**6, 3000, 24
    exact = acc * mult / 2**shift
    assert legacy_stage(acc, 0, mult, shift) < 0
    assert abs(int(multiply(np.int64(acc), *quantize_multiplier(mult / 2**shift))) - exact) < 1


@given(st.integers(INT32_MIN, INT32_MAX), st.floats(2.0**-20, 0.999))
def test_the_fixed_point_product_never_leaves_int32(acc: int, real: float) -> None:
    assert INT32_MIN <= int(multiply(np.int64(acc), *quantize_multiplier(real))) <= INT32_MAX


def test_the_small_multipliers_that_avoid_overflow_are_inaccurate() -> None:
    """For accumulators up to 2^24, mult must stay below 2^7; then 1/777 is wrong by more than 0.1 %."""
    real = 1 / 777
    mult, shift = max(
        ((floor(real * 2**s + 0.5), s) for s in range(1, 31)),
        key=lambda p: p[0] if p[0] < 2**7 else 0,
    )
    assert mult * 2**24 < 2**31
    assert abs(mult / 2**shift / real - 1) > 1e-3
    m, left = (int(v) for v in quantize_multiplier(real))
    assert abs(m * 2.0 ** (left - 31) / real - 1) < 2**-30


def test_the_legacy_stage_cannot_make_zero_exact() -> None:
    """It adds the offset before the product: real 0 is acc = 0, whose image offset · mult / 2^shift is no integer.

    The output's zero is then −B/A of form 1. With the zero point added last, acc = 0 gives it exactly.
    """
    offset, mult, shift = 1000, 77, 10
    image = Fraction(offset * mult, 2**shift)
    assert image.denominator > 1
    assert legacy_stage(0, offset, mult, shift) != image
    lhs, rhs = np.array([[55, 200]], np.uint8), np.array([[3], [3]], np.uint8)
    for zero_point in (0, 75, 255):
        operands = [(lhs, uint8_params(0.3, 10)), (rhs, uint8_params(0.7, 3))]
        out = run_node(
            "gemmlowp", "MatMul", operands, uint8_params(0.123, zero_point), constants=[1]
        )
        assert out.item() == zero_point


def test_the_order_of_offset_and_multiplier_is_that_of_the_equations() -> None:
    """Legacy: A·q + B inside out, (acc + offset) · M; new: acc · M + zero_point."""
    acc, real = 100, 0.5
    legacy = legacy_stage(acc, 10, 1, 1)
    new = int(multiply(np.int64(acc), *quantize_multiplier(real))) + 10
    assert (legacy, new) == (55, 60)


def test_zero_point_is_one_of_the_quantized_values_and_scale_is_positive() -> None:
    plan = quantize_network(
        build_network("y = Conv(x, w)", w=gaussian_array(4, 3, 3, 3)), target="gemmlowp"
    ).plan
    for params in (*plan.tensors.values(), *plan.operands.values()):
        assert isinstance(params, QuantParams)
        assert (params.scale > 0).all()
        if params.qtype.bits == 8:
            assert ((params.zero_point >= 0) & (params.zero_point <= 255)).all()


def test_any_output_pipeline_may_follow_the_kernel() -> None:
    """The kernel accumulates; what makes 8-bit results of it is handed in."""
    rng = np.random.default_rng(0)
    lhs, rhs = (rng.integers(0, 256, shape, np.uint8) for shape in ((4, 9), (9, 3)))
    core = prepare_matmul_by_constant(
        rhs, None, a_qtype=UINT8, a_zero_point=100, b_qtype=UINT8, b_zero_point=30
    )  # fmt: skip
    acc = (lhs.astype(int) - 100) @ (rhs.astype(int) - 30)
    accumulators = core(lhs, lambda acc, channels: acc.astype(np.int32))
    shifted = core(
        lhs, lambda acc, channels: np.clip(acc.astype(np.int32) >> 9, 0, 255).astype(np.uint8)
    )
    np.testing.assert_array_equal(accumulators, acc)
    np.testing.assert_array_equal(shifted, np.clip(acc >> 9, 0, 255))


def test_arithmetic_on_integers_follows_that_on_reals_only_where_the_map_is_affine() -> None:
    """Of products of sums one factor tells the real one where q maps to r by (3), and none where by a square."""
    rng = np.random.default_rng(0)
    q = rng.integers(0, 256, (2, 500, 20)).astype(float)
    integers = ((q[0] - 100) * (q[1] - 100)).sum(1)

    def unexplained(real: Any) -> float:
        product = (real(q[0] - 100) * real(q[1] - 100)).sum(1)
        factor = (product @ integers) / (integers @ integers)
        return float(np.linalg.norm(product - factor * integers) / np.linalg.norm(product))

    assert unexplained(lambda centred: 0.05 * centred) < 1e-12
    assert unexplained(lambda centred: np.sign(centred) * centred**2) > 0.3
