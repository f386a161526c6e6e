"""TPU-MLIR's derivations of Add to PReLU, one by one; where a formula slips, an erratum derives it.

Oracles: exact rational arithmetic (fractions) and the step 0 of each derivation, real numbers in float64.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from networks import build_network, gaussian_array, quantize_network
from sites import int8_params, run_node, uint8_params
from tpu_mlir_rounding import half_away, half_up, near, product

from ptq.core.targets import TARGETS
from ptq.executor.arithmetics.tpu_mlir_elementwise import (
    average_factors,
    compute_common_shift_multipliers,
)
from ptq.kernels.multiplier_shift import shift_right, to_mantissa_and_shift

TARGET = TARGETS["tpu-mlir"]


PLAIN = int8_params(0.037)


EVERY_INT8 = np.arange(-128, 128).astype(np.int8)


@given(st.floats(0.01, 4), st.floats(0.01, 4))
def test_symmetric_add_is_two_products_in_int16_and_one_shift(a: float, b: float) -> None:
    qa, qb = EVERY_INT8[:, None], EVERY_INT8[None, :]
    ours = run_node(
        "tpu-mlir", "Add", [(qa, int8_params(a)), (qb, int8_params(b))], int8_params(1.0)
    )
    ratios = (float(np.float32(a)), float(np.float32(b)))
    (ma, mb), rshift = compute_common_shift_multipliers(ratios)
    buffer = qa.astype(int) * ma + qb.astype(int) * mb
    assert np.array_equal(buffer, buffer.astype(np.int16))
    np.testing.assert_array_equal(ours, np.clip(shift_right(buffer, rshift), -128, 127))
    error = 128 * (abs(ma / 2**rshift - ratios[0]) + abs(mb / 2**rshift - ratios[1]))
    near(ours, qa * ratios[0] + qb * ratios[1], 0.5 + error)


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_the_int16_buffer_of_add_cannot_overflow(a: float, b: float) -> None:
    multipliers, _ = compute_common_shift_multipliers((a, b))
    assert max(multipliers) <= 127
    assert 128 * sum(multipliers) < 2**15


def test_asymmetric_add_dequantizes_adds_and_requantizes() -> None:
    qa, qb = EVERY_INT8[:, None], EVERY_INT8[None, :]
    a, b, y = int8_params(0.03, 5), int8_params(0.07, -9), int8_params(0.08, 2)
    ours = run_node("tpu-mlir", "Add", [(qa, a), (qb, b)], y)
    real = a.dequantize(qa).astype(np.float64) + b.dequantize(qb)
    near(ours, real / float(y.scale) + 2, 0.5 + 1e-4)
    assert (
        run_node(
            "tpu-mlir", "Add", [(qa, int8_params(0.5, 1)), (qb, int8_params(0.5))], int8_params(1.0)
        )[129, 128]
        == 0
    )


@pytest.mark.parametrize(("zx", "zy"), [(0, 0), (11, -30), (-128, 100)])
def test_erratum_the_offset_of_average_pool_is_added(zx: int, zy: int) -> None:
    """Step 1 is y = Sx/(Sy·k)·Σ(x − Zx) + Zy. Taking Zx out of the sum of k terms,

        y = Sx/(Sy·k)·Σx − Sx/(Sy·k)·k·Zx + Zy = Scale·Σx + (Zy − Sx/Sy·Zx) = Scale·Σx + Offset

    The manual's step 2 prints "− (Zy − Sx/Sy·Zx)", which has Zy with the wrong sign.
    """
    x = np.random.default_rng(0).integers(-128, 128, (2, 6, 6, 3)).astype(np.int8)
    xp, yp = int8_params(0.04, zx), int8_params(0.05, zy)
    ours = run_node("tpu-mlir", "AveragePool", [(x, xp)], yp, kernel_shape=(2, 3))
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(int), (2, 3), (1, 2))
    total, ratio = windows.sum((-1, -2)), float(xp.scale) / float(yp.scale)
    near(ours, ratio / 6 * (total - 6 * zx) + zy, 0.5 + 1e-4)
    scale, offset = average_factors(xp, yp, 6)
    assert float(scale) == pytest.approx(ratio / 6)
    assert float(offset) == pytest.approx(zy - ratio * zx)
    if zy:
        printed = np.clip(float(scale) * total - float(offset), -128, 127)
        assert np.abs(printed - ours).max() > 10


def test_global_average_pool_is_an_average_over_all_positions() -> None:
    x = np.random.default_rng(0).integers(-128, 128, (2, 4, 5, 3)).astype(np.int8)
    operands = [(x, int8_params(0.04, 3))]
    whole = run_node("tpu-mlir", "GlobalAveragePool", operands, int8_params(0.02, -9))
    window = run_node(
        "tpu-mlir", "AveragePool", operands, int8_params(0.02, -9), kernel_shape=(4, 5)
    )
    np.testing.assert_array_equal(whole, window)


def test_the_padding_that_average_pool_counts_is_the_real_zero() -> None:
    x = np.full((1, 2, 2, 1), 30, np.int8)
    out = run_node(
        "tpu-mlir",
        "AveragePool",
        [(x, int8_params(1.0, 10))],
        int8_params(1.0, 10),
        kernel_shape=(2, 2),
        pads=(1, 1, 0, 0),
        count_include_pad=1,
    )
    assert out[0, :, :, 0].tolist() == [[15, 20], [20, 30]]


@pytest.mark.parametrize("alpha", [0.1, 0.25, 1.5, -0.3])
@pytest.mark.parametrize(("zx", "zy"), [(0, 0), (-20, -20), (30, -5)])
def test_erratum_leaky_relu_splits_where_q_reaches_zx(alpha: float, zx: int, zy: int) -> None:
    """The manual's case is q_x ≥ 0. Real x = Sx(q_x − Zx) with Sx > 0, so x ≥ 0 is q_x ≥ Zx.

    The two agree only if Zx = 0. And "M >> rshift (q_x − Zx)" shifts the product with (q_x − Zx), not M alone:
    M >> rshift is 0 for every |alpha| below 1.
    """
    ours = run_node(
        "tpu-mlir",
        "LeakyRelu",
        [(EVERY_INT8, int8_params(0.1, zx))],
        int8_params(0.1, zy),
        alpha=alpha,
    )
    q = EVERY_INT8.astype(int) - zx
    real = np.float64(np.float32(alpha))
    expected = [v + zy if v >= 0 else product(int(v), real, 7) + zy for v in q]
    np.testing.assert_array_equal(ours, np.clip(expected, -128, 127))
    near(ours, np.where(q >= 0, q, alpha * q) + zy, 0.5 + 256 * abs(alpha) / 2**7)
    if zx:
        printed = np.where(EVERY_INT8 >= 0, q, alpha * q) + zy
        assert np.abs(np.clip(printed, -128, 127) - ours).max() > 4
    m, rshift = (int(v) for v in to_mantissa_and_shift(abs(alpha), 7))
    assert m >> rshift == int(abs(alpha))


def test_leaky_relu_with_another_output_scale_rescales_both_branches() -> None:
    """Step 1, before any calibration: Sx/Sy in the upper branch, alpha·Sx/Sy in the lower."""
    x, y = int8_params(0.1, 4), int8_params(0.06, -7)
    ours = run_node("tpu-mlir", "LeakyRelu", [(EVERY_INT8, x)], y, alpha=0.2)
    q, ratio = EVERY_INT8.astype(int) - 4, float(x.scale) / float(y.scale)
    near(ours, np.where(q >= 0, q, 0.2 * q) * ratio - 7, 0.5 + 0.4)


@pytest.mark.parametrize("value", [0.0, 0.26, -1.24, 1000.0])
@pytest.mark.parametrize("zero", [0, 17])
def test_a_pad_holds_round_of_value_by_sy_plus_zy(value: float, zero: int) -> None:
    x = np.array([[5]], np.int8)
    params = int8_params(0.1, zero)
    out = run_node(
        "tpu-mlir", "Pad", [(x, params)], params, pads=[0, 1, 0, 0], value=np.float32(value)
    )
    expected = half_away(float(np.float32(value)) / float(params.scale) + zero)
    assert out.tolist() == [[min(expected, 127), 5]]


def test_a_pad_with_another_output_scale_rescales_the_origin() -> None:
    x = np.array([[60]], np.int8)
    out = run_node(
        "tpu-mlir",
        "Pad",
        [(x, int8_params(0.1, 10))],
        int8_params(0.2, -3),
        pads=[0, 1, 0, 1],
        value=1.0,
    )
    assert out.tolist() == [[2, (60 - 10) // 2 - 3, 2]]


@given(st.integers(0, 2**31), st.sampled_from([(0, 0), (-12, 30)]))
def test_prelu_has_a_multiplier_a_channel_and_one_rshift(seed: int, zeros: tuple[int, int]) -> None:
    rng = np.random.default_rng(seed)
    zx, zy = zeros
    slopes = rng.integers(-127, 128, 5).astype(np.int8)
    x = rng.integers(-128, 128, (3, 5)).astype(np.int8)
    sp = int8_params(0.004)
    ours = run_node(
        "tpu-mlir", "PRelu", [(x, int8_params(0.1, zx)), (slopes, sp)], int8_params(0.1, zy)
    )
    m, rshift = (int(v) for v in to_mantissa_and_shift(float(sp.scale), 7))
    multipliers = [int(a) * m for a in slopes]
    expected = np.zeros(x.shape, int)
    for at in np.ndindex(x.shape):
        q = int(x[at]) - zx
        below = half_up(Fraction(q * multipliers[at[1]], 2**rshift))
        expected[at] = (q if q >= 0 else below) + zy
    np.testing.assert_array_equal(ours, np.clip(expected, -128, 127))
    real = x.astype(int) - zx
    near(ours, np.where(real >= 0, real, real * slopes * float(sp.scale)) + zy, 0.5 + 1.2)


def test_backward_calibration_gives_leaky_relu_and_prelu_one_scale() -> None:
    assert {"LeakyRelu", "PRelu"} <= TARGET.backward_calibration


def test_forward_calibration_gives_pad_its_inputs_scale() -> None:
    model = build_network(
        "h = Conv(x, w)\np = Pad(h, pads, value)\ny = Conv(p, v)",
        w=gaussian_array(4, 3, 3, 3),
        v=gaussian_array(2, 4, 1, 1),
        pads=np.array([0, 0, 2, 2, 0, 0, 2, 2]),
        value=np.float32(0.5),  # a zero would be folded into the convolution
    )
    graph = quantize_network(model, target="tpu-mlir")
    (node,) = (n for n in graph.prepared.nodes if n.op_type == "Pad")
    before, after = (
        graph.plan.tensors[str(v.name)] for v in (node.inputs[0], node.outputs[0]) if v
    )
    assert before == after


def test_with_one_scale_nothing_is_rescaled_at_all() -> None:
    """S_x = S_y makes the ratio 1, whose multiplier is exact."""
    m, rshift = (int(v) for v in to_mantissa_and_shift(1.0, 31))
    assert m == 2**rshift
    out = run_node("tpu-mlir", "LeakyRelu", [(EVERY_INT8, PLAIN)], PLAIN, alpha=1.0)
    np.testing.assert_array_equal(out, EVERY_INT8)


def test_unsigned_inputs_are_added_in_float() -> None:
    """255 · 127 · 2 leaves int16, so that UINT8 goes the asymmetric way."""
    q = np.array([255, 0, 100], np.uint8)
    out = run_node(
        "tpu-mlir", "Add", [(q, uint8_params(0.5)), (q, uint8_params(0.25))], uint8_params(1.0)
    )
    assert out.tolist() == [191, 0, 75]


def test_a_symmetric_pad_is_filled_with_0() -> None:
    """Z_x = 0: what is padded before a convolution, and what a Pad of 0 holds, is the integer 0."""
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (1, 4, 4, 2)).astype(np.int8)
    w = rng.integers(-127, 128, (3, 3, 3, 2)).astype(np.int8)
    zeros = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    one, other = (
        run_node(
            "tpu-mlir",
            "Conv",
            [(a, int8_params(0.1)), (w, int8_params(0.01))],
            int8_params(0.2),
            constants=[1],
            **pads,
        )
        for a, pads in ((x, {"pads": (1, 1, 1, 1)}), (zeros, {}))
    )
    np.testing.assert_array_equal(one, other)
    padded = run_node(
        "tpu-mlir",
        "Pad",
        [(x[0, 0], int8_params(0.1))],
        int8_params(0.1),
        pads=[1, 0, 0, 0],
        value=0.0,
    )
    assert not padded[0].any()
