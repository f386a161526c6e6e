"""Depthwise convolutions that stay float on target ``openvino``; the oracle is the rule, by hand."""

from __future__ import annotations

import pytest
from networks import build_network, gaussian_array, quantize_network

SAME = "pads = [1, 1, 1, 1]"
WEIGHTS = {
    "u": gaussian_array(8, 3, 1, 1, scale=0.3),
    "d": gaussian_array(8, 1, 3, 3, seed=1, scale=0.3),
    "v": gaussian_array(4, 8, 1, 1, seed=2, scale=0.3),
}


def float_nodes(target: str, activation: str, attributes: str, side: int = 8) -> dict[str, str]:
    text = f"c = Conv(x, u)\na = {activation}(c)\nm = Conv<{attributes}>(a, d)\ny = Conv(m, v)"
    model = build_network(text, {"x": (1, 3, side, side)}, **WEIGHTS)
    return quantize_network(model, target=target).plan.floats


@pytest.mark.parametrize("attributes", [f"group = 8, {SAME}", 'group = 8, auto_pad = "SAME_UPPER"'])
def test_a_padded_one_whose_input_is_below_zero_stays_float(attributes: str) -> None:
    assert "below zero" in float_nodes("openvino", "HardSwish", attributes)["Conv_m"]


@pytest.mark.parametrize(
    ("target", "activation", "attributes"),
    [
        ("openvino", "Relu", f"group = 8, {SAME}"),
        ("openvino", "HardSwish", "group = 8"),
        ("portable", "HardSwish", f"group = 8, {SAME}"),
        ("ort", "HardSwish", f"group = 8, {SAME}"),
    ],
)
def test_others_are_quantized(target: str, activation: str, attributes: str) -> None:
    assert "Conv_m" not in float_nodes(target, activation, attributes)


def test_a_large_one_is_quantized() -> None:
    # 8 channels of input and output: 2**18 elements are 128 × 128 pixels
    assert "Conv_m" in float_nodes("openvino", "HardSwish", f"group = 8, {SAME}", side=128)
    assert "Conv_m" not in float_nodes("openvino", "HardSwish", f"group = 8, {SAME}", side=129)
