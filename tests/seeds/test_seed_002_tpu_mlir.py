"""TPU-MLIR's chapter on quantization, derivation by derivation; where a formula slips, an erratum derives it.

Oracles: exact rational arithmetic (fractions) and the step 0 of each derivation, real numbers in float64.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sites import int8_params, run_node
from tpu_mlir_rounding import half_up, near, product

from ptq.core.targets import TARGETS
from ptq.core.types import INT8, INT8_WEIGHT, UINT8, QuantParams, Range
from ptq.kernels.multiplier_shift import shift_right, to_mantissa_and_shift
from ptq.observers.qparams import compute_asymmetric_qparams, compute_symmetric_qparams

TARGET = TARGETS["tpu-mlir"]
BITS = {"tpu-mlir": 31, "tpu-mlir-8": 7}
PLAIN = int8_params(0.037)
EVERY_INT8 = np.arange(-128, 128).astype(np.int8)


@pytest.mark.parametrize("qtype", [INT8, UINT8])
@given(lo=st.floats(-20, -0.01), hi=st.floats(0.01, 20))
def test_asymmetric_s_is_range_by_steps_and_z_is_round_of_qmin_minus_min_by_s(
    qtype: Any, lo: float, hi: float
) -> None:
    params = compute_asymmetric_qparams(Range(lo, hi), qtype)
    scale = np.float32((hi - lo) / (qtype.hi - qtype.lo))
    assert params.scale == scale
    assert int(params.zero_point) == np.rint(-lo / float(scale) + qtype.lo)


def test_asymmetric_quantization_maps_min_and_max_to_the_ends() -> None:
    for qtype, ends in ((INT8, [-128, 127]), (UINT8, [0, 255])):
        params = compute_asymmetric_qparams(Range(-1.0, 3.0), qtype)
        assert params.quantize([-1.0, 3.0]).tolist() == ends


def test_q_is_r_by_s_plus_z_and_r_is_s_times_q_minus_z() -> None:
    params = int8_params(0.25, 3)
    assert params.quantize([1.0, -0.5]).tolist() == [7, 1]
    assert params.dequantize(np.array([7, 1], np.int8)).tolist() == [1.0, -0.5]


def activation(threshold: float) -> QuantParams:
    """An activation's parameters from its threshold, by the target's row."""
    assert TARGET.symmetric_divisor is not None
    return QuantParams.per_tensor(threshold / TARGET.symmetric_divisor, 0, TARGET.activation)


def test_symmetric_quantization_is_asymmetric_with_z_0() -> None:
    params = activation(4.0)
    assert int(params.zero_point) == 0
    with_z = compute_asymmetric_qparams(Range(-4.0, 4.0 * 127 / 128), INT8)
    assert (float(with_z.scale), int(with_z.zero_point)) == (float(params.scale), 0)


def test_an_activation_has_threshold_by_128_and_the_threshold_itself_saturates() -> None:
    params = activation(2.0)
    assert float(params.scale) == 2.0 / 128
    assert params.quantize([1.0, -2.0, 2.0]).tolist() == [64, -128, 127]
    assert params.dequantize(np.array([64], np.int8)).item() == 64 * 2.0 / 128


def test_a_weight_has_threshold_by_127() -> None:
    assert TARGET.weight == INT8_WEIGHT
    params = compute_symmetric_qparams(3.0, TARGET.weight)
    assert params.scale == np.float32(3.0 / 127)
    assert params.quantize([3.0, -3.0]).tolist() == [127, -127]


def test_uint8_has_threshold_by_255_on_a_range_from_zero() -> None:
    params = compute_asymmetric_qparams(Range(0.0, 6.0), UINT8)
    assert params.scale == np.float32(6.0 / 255)
    assert int(params.zero_point) == 0


def test_a_weight_is_symmetric_whatever_the_activations_are() -> None:
    assert not TARGET.weight_zero_point


def test_0_1234_is_2119995857_by_2_to_the_34() -> None:
    m, rshift = (int(v) for v in to_mantissa_and_shift(0.1234, 31))
    assert (m, rshift) == (2119995857, 34)
    assert Fraction(0.9872) == Fraction(0.1234) * 2**3
    assert abs(Fraction(m, 2**34) - Fraction(0.1234)) < Fraction(1, 2**35)


@pytest.mark.parametrize(("x", "y"), [(1, 0), (8, 1), (1000, 123), (-1000, -123), (10**6, 123400)])
def test_x_times_0_1234_is_x_times_2119995857_shifted_right_by_34(x: int, y: int) -> None:
    assert int(shift_right(np.int64(x * 2119995857), 34)) == y
    assert y == half_up(Fraction(x * 2119995857, 2**34))


def test_the_plain_shift_of_the_text_would_lean_downwards() -> None:
    """Why a rounding one is used: (−1 · M) >> 34 is −1 where −0.1234 is nearest 0."""
    assert -1 * 2119995857 >> 34 == -1
    assert int(shift_right(np.int64(-2119995857), 34)) == 0


@given(st.floats(2.0**-40, 2.0**20))
def test_erratum_m0_lies_in_one_half_to_below_one(real: float) -> None:
    """The manual prints M_0 ∈ [0.5, 1]; with both ends included M has two forms.

    1 = 2^-0 · 1 = 2^1 · 0.5. The paper's interval is half open, and the multiplier of 1 would need 32 bits.
    """
    m, _ = to_mantissa_and_shift(real, 31)
    assert Fraction(1, 2) <= Fraction(int(m), 2**31) < 1
    assert tuple(map(int, to_mantissa_and_shift(1.0, 31))) == (2**30, 30)
    assert tuple(map(int, to_mantissa_and_shift(1 - 2.0**-40, 31))) == (2**30, 30)


@given(st.floats(2.0**-20, 2.0**10))
def test_more_bits_of_multiplier_come_nearer_to_the_scale(scale: float) -> None:
    errors = []
    for bits in (31, 7):
        m, rshift = (int(v) for v in to_mantissa_and_shift(scale, bits))
        errors.append(abs(Fraction(m) / Fraction(2) ** rshift - Fraction(scale)))
        assert errors[-1] <= Fraction(scale) / 2**bits
    assert errors[0] <= errors[1]


def convolution(name: str, seed: int, zero_x: int, zero_y: int) -> tuple[Any, Any, Any]:
    """Output, real-valued output in steps, and the multipliers' values of a padded convolution."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-128, 128, (1, 5, 5, 3)).astype(np.int8)
    w = rng.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8)
    b = rng.integers(-3000, 3000, 4).astype(np.int32)
    sw = rng.uniform(0.001, 0.01, 4).astype(np.float32)
    y = int8_params(0.2, zero_y)
    operands = [(x, int8_params(0.05, zero_x)), (w, int8_params(sw, 0, 0)), (b, None)]
    ours = run_node(name, "Conv", operands, y, constants=[1, 2], pads=(1, 1, 1, 1))
    padded = (
        np.pad(x.astype(int), ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=zero_x) - zero_x
    )
    acc = np.zeros((1, 5, 5, 4), int) + b
    for i in range(3):
        for j in range(3):
            acc += padded[:, i : i + 5, j : j + 5] @ w[:, i, j].astype(int).T
    return ours, acc, np.float64(np.float32(0.05)) * sw / float(y.scale)


@pytest.mark.parametrize("name", BITS)
@pytest.mark.parametrize(("zero_x", "zero_y"), [(0, 0), (-7, 20), (-128, 127)])
def test_conv_is_the_accumulator_times_multiplier_shifted_right_plus_zy(
    name: str, zero_x: int, zero_y: int
) -> None:
    ours, acc, reals = convolution(name, 1, zero_x, zero_y)
    expected = np.zeros(acc.shape, int)
    for at in np.ndindex(acc.shape):
        value = product(int(acc[at]), float(reals[at[-1]]), BITS[name]) + zero_y
        expected[at] = min(max(value, -128), 127)
    np.testing.assert_array_equal(ours, expected)
    near(ours, acc * reals + zero_y, 1.5 if name == "tpu-mlir-8" else 0.5 + 1e-6)


def test_conv_per_axis_has_one_multiplier_and_one_rshift_an_output_channel() -> None:
    _, _, reals = convolution("tpu-mlir", 1, 0, 0)
    m, rshift = to_mantissa_and_shift(reals, 31)
    assert m.shape == rshift.shape == (4,)
    assert len(set(zip(m.tolist(), rshift.tolist(), strict=True))) == 4


def test_an_asymmetric_pad_is_filled_with_zx() -> None:
    """A window of padding alone then adds nothing; filled with the integer 0 it would add −Zx·w."""
    x, w = np.zeros((1, 1, 1, 1), np.int8) + 9, np.full((1, 1, 1, 1), 100, np.int8)
    operands = [(x, int8_params(1.0, 9)), (w, int8_params(1.0))]
    out = run_node(
        "tpu-mlir", "Conv", operands, int8_params(1.0, 5), constants=[1], pads=(1, 1, 1, 1)
    )
    assert (out == 5).all()


def test_the_bias_of_conv_takes_in_the_input_zero_point() -> None:
    """Step 1 to 2: (q_x − Z_x)·q_w + B_1 = q_x·q_w + B_2 with B_2 = B_1 − Z_x·Σ q_w."""
    x, w = np.array([[[[30]]]], np.int8), np.array([[[[3]]]], np.int8)
    y = int8_params(1.0)
    centred = [(x, int8_params(1.0, 10)), (w, int8_params(1.0)), (np.array([4], np.int32), None)]
    folded = [
        (x, int8_params(1.0)),
        (w, int8_params(1.0)),
        (np.array([4 - 10 * 3], np.int32), None),
    ]
    outputs = [
        run_node("tpu-mlir", "Conv", o, y, constants=[1, 2]).item() for o in (centred, folded)
    ]
    assert outputs == [(30 - 10) * 3 + 4] * 2


def test_inner_product_is_derived_as_conv_is() -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(-128, 128, (6, 8)).astype(np.int8)
    w = rng.integers(-127, 128, (8, 4)).astype(np.int8)
    b = rng.integers(-999, 999, 4).astype(np.int32)
    y = int8_params(0.3, -4)
    last = [(x, int8_params(0.05, 6)), (w, int8_params(0.02)), (b, None)]
    as_conv = [
        (x[:, None, None], int8_params(0.05, 6)),
        (w.T[:, None, None], int8_params(0.02)),
        (b, None),
    ]
    np.testing.assert_array_equal(
        run_node("tpu-mlir", "Gemm", last, y, constants=[1, 2]),
        run_node("tpu-mlir", "Conv", as_conv, y, constants=[1, 2])[:, 0, 0],
    )
