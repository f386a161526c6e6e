"""Hard sigmoids as sums that saturate; ONNX Runtime, its kernels and numpy's function are the oracles."""

from __future__ import annotations

import numpy as np
import pytest
from networks import (
    build_network,
    find_disagreements,
    gaussian_array,
    optimized_kernels,
    quantize_network,
    worst_sqnr_db,
)

from ptq.executor.executor import Executor
from ptq.model.session.session import Session

SAME = "<pads = [1, 1, 1, 1]>"
BODIES = {
    "hard swish": "h = HardSwish(c)",
    "hard sigmoid": "h = HardSigmoid(c)",
    "steep hard sigmoid": "h = HardSigmoid<alpha = 1.5, beta = 0.3>(c)",
    "squeeze and excite": "g = GlobalAveragePool(c)\ns = HardSigmoid(g)\nh = Mul(c, s)",
}
GIVEN = {
    "w": gaussian_array(8, 3, 3, 3),
    "b": gaussian_array(8, seed=1),
    "v": gaussian_array(4, 8, 3, 3, seed=2),
}


def between(body: str):
    """The body between two convolutions, quantized."""
    return quantize_network(
        build_network(f"c = Conv{SAME}(x, w, b)\n{body}\ny = Conv{SAME}(h, v)", **GIVEN)
    )


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_all_forms_compute_the_same_integers(body: str) -> None:
    done = between(body)
    assert find_disagreements(done) == []
    assert not Executor(done.qdq).islands


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_onnx_runtime_runs_integer_kernels_alone(body: str) -> None:
    kernels = optimized_kernels(between(body).qdq)
    assert kernels["QLinearAdd"] == 1
    assert not kernels["HardSigmoid"] + kernels["HardSwish"] + kernels["Mul"] + kernels["Add"]


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_the_function_is_near_the_one_in_float(body: str) -> None:
    assert worst_sqnr_db(between(body)) > 25


def test_a_hard_swish_is_within_a_step_and_a_half_of_its_own() -> None:
    done = between("h = HardSwish(c)")
    step = float(done.plan.tensors["h"].scale)
    gate = 1 / 510  # half a step of the factor
    feed = done.feeds[0]
    taps = Executor(done.qdq).run(feed, taps=["c_quantized", "h_quantized"])
    c = done.plan.tensors["c"].dequantize(taps["c_quantized"]).astype(np.float64)
    h = done.plan.tensors["h"].dequantize(taps["h_quantized"])
    exact = c * np.clip(c / 6 + 0.5, 0, 1)
    assert np.all(
        np.abs(h - exact) <= step * 0.5001 + np.where(np.abs(c) < 3, gate * np.abs(c), 0) + 1e-6
    )


@pytest.mark.parametrize(
    "body", ["h = HardSigmoid<alpha = -0.5>(c)", "h = HardSigmoid<beta = 0.0>(c)"]
)
def test_slopes_and_shifts_that_no_saturation_expresses_stay_as_they_are(body: str) -> None:
    done = between(body)
    assert "HardSigmoid" in {node.op_type for node in done.qdq.nodes}
    expected = Session(done.qdq, threads=1).run(done.feeds[0])[0]
    assert np.array_equal(Executor(done.qdq).run(done.feeds[0])["y"], expected)


def test_a_hard_swish_left_float_stays() -> None:
    nodes = f"c = Conv{SAME}(x, w, b)\nh = HardSwish(c)\ny = Conv{SAME}(h, v)"
    done = quantize_network(build_network(nodes, **GIVEN), skip=("HardSwish",))
    assert "HardSwish" in {node.op_type for node in done.qdq.nodes}
