"""Inputs of Concat that take its scale though other nodes read them; the rule, by hand, is the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from networks import (
    QuantizedNetwork,
    build_network,
    find_disagreements,
    gaussian_array,
    quantize_network,
)

WEIGHTS = {
    "w": np.eye(3, dtype=np.float32).reshape(3, 3, 1, 1),
    "e": gaussian_array(4, 3, 1, 1, seed=2),
    "g": gaussian_array(4, 6, 1, 1, seed=3),
}
TWO_READERS = "j = Concat<axis = 1>({one}, {other})\nd = Conv(a, e)\nf = Conv(b, e)\ny = Conv(j, g)"
SAMPLES = [{"x": np.linspace(-1, 1, 192, dtype=np.float32).reshape(1, 3, 8, 8)}]


def _quantize(times: float, activation: str = "Identity", target: str = "ort") -> QuantizedNetwork:
    """Two branches, both read by a Concat and a convolution; the range of the second is ``times`` the first."""
    nodes = (
        f"p = Conv(x, w)\na = {activation}(p)\nq = Conv(x, v)\nb = {activation}(q)\n"
        + TWO_READERS.format(one="a", other="b")
    )
    model = build_network(nodes, outputs=("d", "f", "y"), v=WEIGHTS["w"] * times, **WEIGHTS)
    return quantize_network(model, SAMPLES, target=target)


@pytest.mark.parametrize("times", [1.2, 0.85, 1 / 1.24])
@pytest.mark.parametrize("target", ["ort", "tpu-mlir"])
def test_a_range_that_is_nearly_as_long_is_shared(times: float, target: str) -> None:
    plan = _quantize(np.float32(times), target=target).plan
    assert plan.tensors["p"] == plan.tensors["q"] == plan.tensors["j"]
    assert any("nearly the same" in str(why) for why in plan.why.values())


@pytest.mark.parametrize("times", [1.3, 0.7])
def test_another_range_stays(times: float) -> None:
    plan = _quantize(np.float32(times)).plan
    assert len({plan.tensors[name] for name in ("p", "q", "j")}) == 2


def test_a_chain_widens_no_range_by_more_than_a_quarter() -> None:
    nodes = (
        "a = Conv(x, w)\nb = Conv(x, v)\nc = Conv(x, u)\n"
        "i = Concat<axis = 1>(a, b)\nj = Concat<axis = 1>(b, c)\n"
        "d = Conv(a, e)\nf = Conv(b, e)\ny = Conv(c, e)"
    )
    own = {"v": WEIGHTS["w"] * np.float32(1.2), "u": WEIGHTS["w"] * np.float32(1.4)}
    model = build_network(nodes, outputs=("i", "j", "d", "f", "y"), **own, **WEIGHTS)
    tensors = quantize_network(model, SAMPLES).plan.tensors
    assert tensors["a"] == tensors["b"] == tensors["i"]
    assert tensors["c"] != tensors["a"]


def test_an_activation_that_folds_shares_with_its_kind_alone() -> None:
    done = _quantize(np.float32(1.2), "Relu")
    assert done.plan.folded == {"Relu_a": "Conv_p", "Relu_b": "Conv_q"}
    assert done.plan.tensors["a"] == done.plan.tensors["b"] == done.plan.tensors["j"]
    nodes = "p = Conv(x, w)\na = Relu(p)\nb = Conv(x, v)\n" + TWO_READERS.format(one="a", other="b")
    v = WEIGHTS["w"] * np.float32([-0.6, 0.01, 0.01]).reshape(3, 1, 1, 1)
    plan = quantize_network(build_network(nodes, outputs=("d", "f", "y"), v=v, **WEIGHTS)).plan
    assert plan.folded == {"Relu_a": "Conv_p"}
    assert plan.tensors["a"].zero_point == 0


def test_the_scale_of_an_input_stays_as_images_of_8_bits_are_exact_in_it() -> None:
    nodes = "a = Conv(x, w)\nj = Concat<axis = 1>(x, a)\nd = Conv(a, e)\ny = Conv(j, g)"
    for times, shared in ((1.2, False), (0.9, True)):
        own = {**WEIGHTS, "w": WEIGHTS["w"] * np.float32(times)}
        tensors = quantize_network(
            build_network(nodes, outputs=("d", "y"), **own), SAMPLES
        ).plan.tensors
        assert float(tensors["x"].scale) == pytest.approx(2 / 255)
        assert (tensors["j"] == tensors["x"]) == shared


def test_the_quantized_model_is_computed_as_in_onnx_runtime() -> None:
    assert find_disagreements(_quantize(np.float32(1.2))) == []
