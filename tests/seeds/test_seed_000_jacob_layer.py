"""Jacob et al. 2018, section 2.4: the fused layer, statement by statement.

Oracles: Python's integers, and the listed code of the layer written out as loops.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from factored_product import compute_factored_product
from hypothesis import given
from hypothesis import strategies as st
from listed_fixed_point import listed_divide, listed_high_mul
from networks import build_network, gaussian_array, quantize_network, random_feeds
from sites import int8_params, run_node, uint8_params

from ptq.core.types import UINT8
from ptq.executor.executor import Executor
from ptq.executor.program import Step
from ptq.kernels.fixed_point import INT32_MAX, multiply, quantize_multiplier
from ptq.model.session.session import Session


def test_int32_plus_equals_uint8_times_uint8() -> None:
    """Equation 10: 33,025 products of 255 · 255 are the most that an int32 holds for certain."""
    most = INT32_MAX // 255**2
    assert most == 33025
    q1, q2 = np.full((1, most), 255, np.uint8), np.full((most, 1), 255, np.uint8)
    output = uint8_params(most * 255**2 / 100)
    out = run_node(
        "gemmlowp",
        "MatMul",
        [(q1, uint8_params(1.0)), (q2, uint8_params(1.0))],
        output,
        constants=[1],
    )
    assert out.item() == 100


def test_the_accumulator_is_signed_as_centred_products_are_negative() -> None:
    q1, q2 = np.array([[0]], np.uint8), np.array([[255]], np.uint8)
    assert compute_factored_product(q1, 255, q2, 0).item() == -(255**2)


def test_the_bias_has_the_product_of_the_scales_and_zero_point_zero() -> None:
    model = build_network(
        "y = Conv(x, w, b)", w=gaussian_array(4, 3, 3, 3), b=gaussian_array(4, seed=1)
    )
    plan = quantize_network(model, target="gemmlowp").plan
    ((node, _), weight), (_, bias) = sorted(plan.operands.items())
    assert node
    np.testing.assert_array_equal(bias.scale, plan.tensors["x"].scale * weight.scale)
    assert not bias.zero_point.any()
    assert bias.qtype.bits == 32


def test_an_error_in_the_bias_shifts_the_mean_of_all_outputs() -> None:
    """Why a bias needs 32 bits: its error has the same sign in every output that it is added to."""
    rng = np.random.default_rng(0)
    q1 = rng.integers(0, 256, (500, 8), np.uint8)
    q2 = rng.integers(0, 256, (8, 1), np.uint8)
    operands = [(q1, uint8_params(0.01, 128)), (q2, uint8_params(0.01, 128))]
    outputs = [
        run_node(
            "gemmlowp",
            "Gemm",
            [*operands, (np.array([b], np.int32), None)],
            uint8_params(0.05, 128),
            constants=[1, 2],
        )
        for b in (0, 1000)  # 1000 · 0.01 · 0.01 = 0.1 = 2 steps of the output
    ]
    shift = outputs[1].astype(int) - outputs[0]
    assert abs(float(shift.mean()) - 2) < 0.1


def test_the_output_saturates_to_uint8() -> None:
    q1 = np.array([[255], [0]], np.uint8)
    q2 = np.array([[255]], np.uint8)
    operands = [(q1, uint8_params(1.0, 128)), (q2, uint8_params(1.0, 0))]
    out = run_node("gemmlowp", "MatMul", operands, uint8_params(1.0, 100), constants=[1])
    assert out.ravel().tolist() == [255, 0]


def test_an_activation_clamps_to_a_part_of_the_range() -> None:
    q1 = np.arange(256, dtype=np.uint8)[:, None]
    operands = [(q1, uint8_params(0.1, 128)), (np.array([[2]], np.uint8), uint8_params(0.5, 0))]
    plain = run_node("gemmlowp", "MatMul", operands, uint8_params(0.1, 128), constants=[1])
    relu6 = run_node(
        "gemmlowp", "MatMul", operands, uint8_params(0.1, 128), constants=[1], clamp=(128, 188)
    )
    np.testing.assert_array_equal(relu6, np.clip(plain, 128, 188))
    assert plain.min() == 0
    assert plain.max() == 255


def test_an_activation_whose_range_the_output_has_does_nothing_more() -> None:
    model = build_network("h = Conv(x, w)\ny = Relu(h)", w=gaussian_array(4, 3, 3, 3))
    plan = quantize_network(model, random_feeds(model), target="gemmlowp").plan
    assert len(plan.folded) == 1
    assert not plan.clamps
    assert int(plan.tensors["y"].zero_point) == 0


@given(st.integers(0, 2**31))
def test_int8_with_zero_points_moved_by_128_is_the_same_arithmetic(seed: int) -> None:
    rng = np.random.default_rng(seed)
    q1, q2 = rng.integers(0, 256, (3, 7), np.uint8), rng.integers(0, 256, (7, 2), np.uint8)
    z1, z2, z3 = (int(z) for z in rng.integers(0, 256, 3))
    unsigned = run_node(
        "gemmlowp",
        "MatMul",
        [(q1, uint8_params(0.1, z1)), (q2, uint8_params(0.2, z2))],
        uint8_params(1.5, z3),
        constants=[1],
    )
    signed = run_node(
        "gemmlowp",
        "MatMul",
        [
            ((q1 ^ 128).view(np.int8), int8_params(0.1, z1 - 128)),
            ((q2 ^ 128).view(np.int8), int8_params(0.2, z2 - 128)),
        ],
        int8_params(1.5, z3 - 128),
        constants=[1],
    )
    np.testing.assert_array_equal(signed.view(np.uint8) ^ 128, unsigned)


@given(st.integers(0, 2**31))
def test_the_fully_connected_layer_is_the_listed_loop(seed: int) -> None:
    rng = np.random.default_rng(seed)
    batches, depth, outputs = (int(v) for v in rng.integers(1, 6, 3))
    x = rng.integers(0, 256, (batches, depth), np.uint8)
    w = rng.integers(0, 256, (outputs, depth), np.uint8)
    bias = rng.integers(-5000, 5000, outputs).astype(np.int32)
    xp, wp, yp = (
        uint8_params(0.02, 131),
        uint8_params(0.005, 7),
        uint8_params(float(rng.uniform(0.001, 0.2)), 90),
    )
    real = float(xp.scale) * float(wp.scale) / float(yp.scale)
    m, shift = (int(v) for v in quantize_multiplier(real))
    expected = np.zeros((batches, outputs), np.uint8)
    for b in range(batches):
        for c in range(outputs):
            acc = int(bias[c])
            for d in range(depth):
                acc += (int(w[c, d]) - 7) * (int(x[b, d]) - 131)
            acc = listed_divide(listed_high_mul(acc << max(shift, 0), m), max(-shift, 0)) + 90
            expected[b, c] = min(max(acc, 0), 255)
    ours = run_node(
        "gemmlowp", "Gemm", [(x, xp), (w, wp), (bias, None)], yp, constants=[1, 2], transB=1
    )
    np.testing.assert_array_equal(ours, expected)


def test_a_larger_multiplier_never_gives_a_smaller_result() -> None:
    """Requantization is monotone in the accumulator, over ties and across zero."""
    m, shift = quantize_multiplier(0.25)
    results = multiply(np.arange(-40, 41), m, shift).tolist()
    assert all(a <= b for a, b in pairwise(results))


FUSED = build_network(
    "h = Conv(x, w, b)\ny = Relu(h)", w=gaussian_array(4, 3, 3, 3), b=gaussian_array(4, seed=1)
)


def test_the_floats_of_training_and_the_integers_of_inference_correspond() -> None:
    """Quantizers in a float graph are what training sees; ONNX Runtime computes it in float32."""
    made = quantize_network(FUSED, target="gemmlowp")
    step = float(made.plan.tensors["y"].scale)
    simulated = Session(made.qdq, threads=1, optimize="none")
    for feed in made.feeds:
        (theirs,) = simulated.run(feed)
        apart = np.rint((Executor(made.qdq, "gemmlowp").run(feed)["y"] - theirs) / step)
        assert np.abs(apart).max() <= 1
        assert np.count_nonzero(apart) <= 0.02 * apart.size


def test_a_fused_layer_takes_8_bit_integers_and_gives_8_bit_integers() -> None:
    """One step of inference between two quantizers of training: bias and activation are within it."""
    program = Executor(quantize_network(FUSED, target="gemmlowp").qdq, "gemmlowp").program
    steps = [step for step in program.steps if isinstance(step, Step)]
    assert [step.op for step in steps] == ["QuantizeLinear", "Conv", "DequantizeLinear"]
    tensors = steps[1].inputs[0], steps[1].outputs[0]
    assert [program.params[name].qtype for name in tensors if name is not None] == [UINT8] * 2
