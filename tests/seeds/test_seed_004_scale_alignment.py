"""Aligning quantization scales before incompatible operations, statement by statement.

Oracles: exact rational arithmetic (fractions) and real numbers in float64. The text's symbols are kept: n and m
are the integers of a and b, p and q the mantissas of their scales.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sites import int8_params, run_node

from ptq.core.errors import UnsupportedError
from ptq.core.types import INT8, QuantParams
from ptq.executor.arithmetics.fixed_point_align import SCALE_BITS, align_scales
from ptq.kernels.multiplier_shift import shift_right, to_mantissa_and_shift

scales = st.floats(2.0**-12, 2.0**2, width=32)
EVERY_INT8 = np.arange(-128, 128).astype(np.int8)


def written(scale: float) -> tuple[int, int]:
    """Mantissa and fraction bits of a scale."""
    m, fracbits = to_mantissa_and_shift(np.float32(scale), SCALE_BITS)
    return int(m), int(fracbits)


def value(fixed: int, fracbits: int) -> Fraction:
    return fixed / Fraction(2) ** fracbits


def test_integers_of_different_scales_cannot_be_added_directly() -> None:
    """(n + m)·scale_a is a + b only if both have that scale."""
    for scale_b, equal in ((0.5, True), (0.25, False)):
        n, m = 10, 6
        assert ((n + m) * 0.5 == n * 0.5 + m * scale_b) is equal


@given(
    st.integers(-128, 127), st.integers(-128, 127), st.integers(-128, 127), st.integers(-128, 127)
)
def test_with_one_scale_the_sum_is_the_sum_of_the_centred_integers(
    n: int, m: int, za: int, zb: int
) -> None:
    """The text leaves zeropoint_b without its index in b's definition; the sum below it has both."""
    scale = Fraction(3, 7)
    assert (n - za) * scale + (m - zb) * scale == (n - za + m - zb) * scale


@given(scales)
def test_a_scale_is_a_mantissa_of_8_bits_and_a_power_of_two(scale: float) -> None:
    i_s, fracbits = written(scale)
    assert 128 <= i_s <= 255
    assert abs(value(i_s, fracbits) - Fraction(scale)) <= Fraction(scale) / 2**8


@given(st.integers(-12, 2))
def test_a_power_of_two_is_exact(exponent: int) -> None:
    assert value(*written(2.0**exponent)) == Fraction(2) ** exponent


def test_8_bits_are_enough_for_a_float32_scale_of_8_bit_integers() -> None:
    """The mantissa's error, 2^-8 of the value, is at most half a step for |n| ≤ 128: that of quantizing itself."""
    scale = np.float32(1 / 128.4)  # among the worst: its mantissa lies halfway
    i_s, fracbits = written(float(scale))
    worst = max(abs(n * (value(i_s, fracbits) - Fraction(float(scale)))) for n in (-128, 127))
    assert worst <= Fraction(float(scale)) / 2


@given(scales, st.integers(-128, 127))
def test_x_is_the_centred_integer_times_the_mantissa_in_fixed_point(
    scale: float, zero: int
) -> None:
    i_s, fracbits = written(scale)
    (way,), maxfracbits = align_scales([int8_params(scale, zero)])
    x = way(EVERY_INT8)
    np.testing.assert_array_equal(x, (EVERY_INT8.astype(int) - zero) * i_s)
    assert int(maxfracbits) == fracbits


def test_the_fixed_point_number_needs_more_bits_than_the_quantized_one() -> None:
    (way,), _ = align_scales([int8_params(255 / 2**15, -128)])
    assert int(way(np.array([127], np.int8)).item()) == 255 * 255
    assert way.max_magnitude == 255 * 255 < 2**16


def test_a_right_shift_can_reduce_the_bits_again() -> None:
    """The note: dropping k bits costs at most half of the last one kept."""
    x = np.arange(-(2**16), 2**16, 7, dtype=np.int64)
    for k in (1, 5, 9):
        assert np.abs(shift_right(x, k) * 2**k - x).max() <= 2 ** (k - 1)


@given(scales, scales)
def test_erratum_the_shift_is_maxfracbits_minus_fracbits(a: float, b: float) -> None:
    """The text: shift_a = fracbits_a − maxfracbits, then a_i << shift_a. That is never positive.

    a = a_i · 2^-fracbits_a = (a_i · 2^(maxfracbits − fracbits_a)) · 2^-maxfracbits: to reach the finer unit the
    mantissa grows by maxfracbits − fracbits_a ≥ 0 bits.
    """
    (p, frac_a), (q, frac_b) = written(a), written(b)
    (way_a, way_b), maxfracbits = align_scales([int8_params(a), int8_params(b)])
    assert int(maxfracbits) == max(frac_a, frac_b)
    assert int(way_a.shift) == int(maxfracbits) - frac_a >= 0
    assert int(way_b.shift) == int(maxfracbits) - frac_b >= 0
    assert 0 in (int(way_a.shift), int(way_b.shift))
    for way, i_s, bits in ((way_a, p, frac_a), (way_b, q, frac_b)):
        one = int(way(np.array([1], np.int8)).item())
        assert value(one, int(maxfracbits)) == value(i_s, bits)


@given(scales, scales)
def test_erratum_the_exponent_of_b_is_fracbits_b(a: float, b: float) -> None:
    """The text: b ≈ ((m − zeropoint_b)·q)·2^-fracbits_a. q was cut from scale_b, so b's own exponent goes with it.

    With fracbits_a the value is off by 2^(fracbits_b − fracbits_a), which is 1 only for scales within one octave.
    """
    (_, frac_a), (q, frac_b) = written(a), written(b)
    assume(frac_a != frac_b)
    assert abs(value(q, frac_b) / Fraction(b) - 1) <= Fraction(1, 2**8)
    assert abs(value(q, frac_a) / Fraction(b) - 1) > Fraction(1, 4)


def tolerance(*operands: tuple[float, int], y: float) -> float:
    """Half a step, and the mantissas' errors in steps."""
    error = sum(
        reach * abs(float(value(*written(s))) - float(np.float32(s))) for s, reach in operands
    )
    return 0.5 + error / y + 0.02


@given(scales, scales, st.integers(-128, 127), st.integers(-128, 127))
def test_add_aligns_its_inputs_and_is_the_real_sum_to_the_nearest(
    a: float, b: float, za: int, zb: int
) -> None:
    n, m = EVERY_INT8[:, None], EVERY_INT8[None, :]
    y = int8_params(float(np.float32(a + b)), 3)
    ours = run_node("fixed-point", "Add", [(n, int8_params(a, za)), (m, int8_params(b, zb))], y)
    real = ((n.astype(int) - za) * a + (m.astype(int) - zb) * b) / float(y.scale) + 3
    limit = tolerance((a, 255), (b, 255), y=float(y.scale))
    assert np.abs(ours - np.clip(real, -128, 127)).max() <= limit


def test_sub_is_add_with_the_second_mantissa_negated() -> None:
    n, m = EVERY_INT8[:, None], EVERY_INT8[None, :]
    ours = run_node(
        "fixed-point", "Sub", [(n, int8_params(0.5)), (m, int8_params(0.125))], int8_params(1.0)
    )
    np.testing.assert_array_equal(ours, np.clip(np.floor(n * 0.5 - m * 0.125 + 0.5), -128, 127))


def test_add_aligns_channel_by_channel() -> None:
    """Each channel has its own maxfracbits; one for all would shift the others further than they need."""
    a, b = np.array([0.5, 0.01, 2.0]), np.array([0.01, 0.5, 2.0])
    ways, maxfracbits = align_scales([int8_params(a, 0, 1), int8_params(b, 0, 1)])
    each = [max(written(s)[1], written(t)[1]) for s, t in zip(a, b, strict=True)]
    assert maxfracbits.tolist() == each
    assert len(set(each)) > 1
    assert [w.shift.min() for w in ways] == [0, 0]
    n = np.random.default_rng(0).integers(-128, 128, (50, 3)).astype(np.int8)
    m = np.random.default_rng(1).integers(-128, 128, (50, 3)).astype(np.int8)
    y = int8_params(4.0, -3)
    ours = run_node("fixed-point", "Add", [(n, int8_params(a, 0, 1)), (m, int8_params(b, 0, 1))], y)
    real = (n * a + m * b) / 4 - 3
    assert np.abs(ours - np.clip(real, -128, 127)).max() <= 0.5 + 128 / 256


def test_erratum_2_to_the_minus_maxfracbits_enters_the_multiplier_of_the_rescale() -> None:
    """The text: "the scale of the outputs obtained after calibration must be multiplied by 2^-maxfracbits".

    The sum is s = s_i·2^-maxfracbits and its integer q = s / S_y = s_i · (2^-maxfracbits / S_y): the multiplier of
    s_i takes the factor in. A scale S_y·2^-maxfracbits would divide by it, s_i·2^+maxfracbits / S_y, and be wrong
    by 2^(2·maxfracbits). Written in units of 2^-maxfracbits, S_y becomes S_y·2^+maxfracbits.
    """
    n, m = np.array([40], np.int8), np.array([20], np.int8)
    a, b, y = int8_params(0.25), int8_params(0.125), int8_params(0.5)
    ways, maxfracbits = align_scales([a, b])
    s_i = int(ways[0](n).item() + ways[1](m).item())
    unit = Fraction(1, 2 ** int(maxfracbits))
    assert s_i * unit / Fraction(1, 2) == 25
    assert run_node("fixed-point", "Add", [(n, a), (m, b)], y).item() == 25
    assert s_i / (Fraction(1, 2) * unit) == 25 * Fraction(2) ** (2 * int(maxfracbits))


def channelwise(axis_scales: Any, seed: int) -> tuple[Any, Any, Any]:
    """An input quantized per channel on its last axis, and a weight matrix."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-128, 128, (6, len(axis_scales))).astype(np.int8)
    w = rng.integers(-127, 128, (len(axis_scales), 4)).astype(np.int8)
    return x, w, int8_params(axis_scales, rng.integers(-20, 20, len(axis_scales)), 1)


def test_channels_of_different_scales_cannot_be_summed_as_integers() -> None:
    """Why a matrix product wants one scale for its input: equal integer sums stand for different real ones."""
    x, w, params = (
        np.array([[1, 0], [0, 1]], np.int8),
        np.array([[1], [1]]),
        int8_params([0.01, 1.0], 0, 1),
    )
    assert (x.astype(int) @ w).ravel().tolist() == [1, 1]
    assert (params.dequantize(x) @ w).ravel().tolist() == pytest.approx([0.01, 1.0])
    operands = [(x, params), (w.astype(np.int8), int8_params(1.0))]
    out = run_node("fixed-point", "MatMul", operands, int8_params(0.01), constants=[1])
    assert out.ravel().tolist() == [1, 100]


@pytest.mark.parametrize("op", ["MatMul", "Gemm", "Conv"])
def test_a_per_axis_input_is_aligned_to_one_scalar_maxfracbits(op: str) -> None:
    """Channels whose ranges vary by 1 to 100, as in transformers."""
    axis_scales = np.geomspace(0.001, 0.1, 8)
    x, w, params = channelwise(axis_scales, 1)
    _, maxfracbits = align_scales([params], one_scale=True)
    assert maxfracbits.ndim == 0
    assert int(maxfracbits) == max(written(s)[1] for s in axis_scales)
    y, wp = (
        int8_params(0.4, 5),
        int8_params(np.geomspace(0.004, 0.01, 4), 0, 0 if op == "Conv" else 1),
    )
    reals = params.dequantize(x).astype(np.float64) @ (w * wp.scale.astype(np.float64))
    if op == "Conv":
        x, w = x[:, None, None], np.ascontiguousarray(w.T)[:, None, None]
        params = int8_params(params.scale, params.zero_point, 3)
    ours = run_node("fixed-point", op, [(x, params), (w, wp)], y, constants=[1]).reshape(6, 4)
    near = np.clip(reals / float(y.scale) + 5, -128, 127)
    slack = np.abs(params.dequantize(x).reshape(6, 8)) @ np.abs(
        w.reshape(4, 8).T if op == "Conv" else w
    )
    limit = 0.5 + (slack * wp.scale).max() / float(y.scale) / 2**8
    assert np.abs(ours - near).max() <= limit


def test_a_bias_joins_the_sum_in_the_unit_of_the_aligned_input() -> None:
    x, w = np.array([[3, 4]], np.int8), np.array([[1], [2]], np.int8)
    bias = (np.array([10], np.int32), None)
    operands = [(x, int8_params(0.5)), (w, int8_params(0.25)), bias]
    out = run_node("fixed-point", "Gemm", operands, int8_params(0.125), constants=[1, 2])
    assert out.item() == (3 * 1 + 4 * 2 + 10) * 0.5 * 0.25 / 0.125


@given(st.lists(scales, min_size=2, max_size=4))
def test_concat_is_aligned_the_same_way(many: list[float]) -> None:
    """Our extension: Concat combines tensors of different scales into one as Add does."""
    y = int8_params(max(many), 2)
    operands = [(EVERY_INT8, int8_params(s)) for s in many]
    ours = run_node("fixed-point", "Concat", operands, y, axis=0).reshape(len(many), 256)
    for part, s in zip(ours, many, strict=True):
        real = np.clip(EVERY_INT8 * np.float64(s) / float(y.scale) + 2, -128, 127)
        assert np.abs(part - real).max() <= tolerance((s, 128), y=float(y.scale))


def test_scales_too_far_apart_are_refused_and_not_wrapped() -> None:
    n = np.array([1], np.int8)
    with pytest.raises(UnsupportedError, match="bits"):
        run_node(
            "fixed-point",
            "Add",
            [(n, int8_params(1.0)), (n, int8_params(2.0**-40))],
            int8_params(1.0),
        )
    with pytest.raises(UnsupportedError, match="cannot be aligned"):
        run_node(
            "fixed-point",
            "Add",
            [(n, int8_params(1.0)), (n, int8_params(2.0**-60))],
            int8_params(1.0),
        )


def test_channels_whose_ranges_differ_a_hundredfold_lose_by_one_scale() -> None:
    """As activations of Transformers do: the least channel has 2 of the 255 steps, and all with its own scale."""
    rng = np.random.default_rng(0)
    ranges = np.array([1.0, 10.0, 100.0])
    real = rng.uniform(-1, 1, (1000, 3)) * ranges

    def decibels(params: Any) -> Any:
        noise = params.dequantize(params.quantize(real)) - real
        return 10 * np.log10((real**2).sum(0) / (noise**2).sum(0))

    whole = decibels(int8_params(100 / 127))
    each = decibels(QuantParams(np.float32(ranges / 127), np.zeros(3, np.int64), INT8, 1))
    assert each.min() > 40
    assert abs(whole[2] - each[2]) < 0.1
    np.testing.assert_allclose(each[:2] - whole[:2], [40, 20], atol=3)
