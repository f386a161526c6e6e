"""First layers in float; what ONNX Runtime 1.32 takes on a processor with AVX512 and VNNI is the oracle."""

from __future__ import annotations

from dataclasses import replace

import pytest
from networks import build_network, find_disagreements, gaussian_array, quantize_network
from onnx import ModelProto

from ptq.core.targets import TARGETS
from ptq.solver.partition.cost_table import ORT_1_31_AVX512_VNNI, use_cost_table

BODY = (
    "d = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(r, u)\ne = Relu(d)\n"
    "f = Conv<pads = [1, 1, 1, 1]>(e, v)\ng = Relu(f)\nh = Conv<pads = [1, 1, 1, 1]>(g, v)\ny = Relu(h)"
)
FIRST = "c = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>({of}, w)\n"


def _network(
    inputs: int,
    outputs: int,
    side: int | str,
    before: str = "",
    of: str = "x",
    activation: str = "r = Relu(c)\n",
) -> ModelProto:
    """Too large for a cache at 640 pixels: the time of the whole model is then a guess."""
    return build_network(
        before + FIRST.format(of=of) + activation + BODY,
        {"x": (1, inputs, 640, side)},
        w=gaussian_array(outputs, inputs, 3, 3),
        u=gaussian_array(32, outputs, 3, 3),
        v=gaussian_array(32, 32, 3, 3),
    )


# all in integers takes 1.48, 1.50, 1.55 and 1.37 times as long (640 × 640 pixels)
@pytest.mark.parametrize(("inputs", "outputs"), [(1, 8), (1, 16), (3, 8), (3, 16)])
def test_it_stays_float_where_that_is_clearly_faster(inputs: int, outputs: int) -> None:
    done = quantize_network(_network(inputs, outputs, 640))
    assert set(done.plan.floats) == {"Conv_c", "Relu_r"}
    assert "faster in float" in done.plan.floats["Conv_c"]


@pytest.mark.parametrize(
    "before", ["", "t = Transpose<perm = [0, 1, 3, 2]>(x)\n"], ids=["conv", "moved"]
)
def test_it_becomes_integers_where_the_input_will_be_integers(before: str) -> None:
    model = _network(3, 16, 640, before, "t" if before else "x")
    row = replace(TARGETS["ort"], integer_border=True)
    assert quantize_network(model, target=row).plan.floats == {}


# 1.04, 0.84 and 0.89 times; six channels are not few, and were not timed
@pytest.mark.parametrize(("inputs", "outputs"), [(3, 32), (3, 64), (1, 64), (6, 16)])
def test_it_becomes_integers_elsewhere(inputs: int, outputs: int) -> None:
    assert quantize_network(_network(inputs, outputs, 640)).plan.floats == {}


def test_sizes_may_vary() -> None:
    assert set(quantize_network(_network(3, 16, "W")).plan.floats) == {"Conv_c", "Relu_r"}


def test_data_movement_before_it_stays_float_too() -> None:
    model = _network(3, 16, 640, "t = Transpose<perm = [0, 1, 3, 2]>(x)\n", "t")
    assert {"Transpose_t", "Conv_c", "Relu_r"} == set(quantize_network(model).plan.floats)


def test_a_layer_behind_a_computation_is_no_first_layer() -> None:
    model = _network(3, 16, 640, "t = Mul(x, x)\n", "t")
    assert quantize_network(model).plan.floats == {}


def test_the_quantized_model_is_computed_as_in_onnx_runtime() -> None:
    body = "d = Conv<pads = [1, 1, 1, 1]>(r, u)\ny = Relu(d)"
    nodes = "c = Conv<pads = [1, 1, 1, 1]>(x, w)\nr = Relu(c)\n" + body
    weights = {"w": gaussian_array(16, 1, 3, 3), "u": gaussian_array(16, 16, 3, 3)}
    done = quantize_network(build_network(nodes, {"x": (1, 1, 256, 256)}, **weights))
    assert set(done.plan.floats) == {"Conv_c", "Relu_r"}
    assert find_disagreements(done) == []


def test_a_silu_behind_it_stays_float_for_it_is_one_kernel_there() -> None:
    # the two integer kernels take 2.5 times as long as QuickGelu, and the quantizer reads the same tensor
    model = _network(3, 16, 640, activation="s = Sigmoid(c)\nr = Mul(c, s)\n")
    assert set(quantize_network(model).plan.floats) == {"Conv_c", "Sigmoid_s", "Mul_r"}


def test_a_silu_between_integers_is_two_kernels_in_float() -> None:
    # with times as ptq tune measures them, both kernels on integers take longer than one of them in float
    slow = dict.fromkeys(("Sigmoid", "Mul"), (1.5, 3.15))
    nodes = "c = Conv(x, u)\ns = Sigmoid(c)\nr = Mul(c, s)\ny = Conv(r, u)"
    model = build_network(nodes, {"x": (1, 32, 64, 64)}, u=gaussian_array(32, 32, 3, 3))
    with use_cost_table(replace(ORT_1_31_AVX512_VNNI, scales=slow)):
        assert quantize_network(model).plan.floats == {}
