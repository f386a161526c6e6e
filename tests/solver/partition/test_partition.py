"""Nodes that no product feeds or reads; the costs, counted by hand, are the oracle."""

from __future__ import annotations

import itertools

import pytest
from networks import build_network, find_disagreements, gaussian_array, quantize_network
from onnx import ModelProto

from ptq.core.targets import TARGETS
from ptq.solver.partition.eligibility import assign_precision
from ptq.solver.partition.partition import FloatTimeModel

SUMS = "t = Gather(p, i)\ns = Add(x, t)\nh = Add(s, x)\nn = LayerNormalization(h, g)\n"


def test_sums_far_from_any_product_stay_float() -> None:
    model = build_network(
        SUMS + "y = Gemm(n, w, b)",
        {"x": (4, 16)},
        g=gaussian_array(16),
        w=gaussian_array(16, 8),
        b=gaussian_array(8),
        p=gaussian_array(4, 16, seed=3),
        i=[0, 1, 2, 3],
    )
    floats = quantize_network(model).plan.floats
    assert {"Add_s", "Add_h"} <= set(floats)
    assert floats["Add_s"].startswith("neighbours are float")


def test_a_model_without_products_is_quantized_where_it_can_be() -> None:
    done = quantize_network(build_network("s = Add(x, x)\ny = Mul(s, x)", {"x": (4, 16)}))
    assert done.plan.floats == {}


def test_a_model_that_only_moves_numbers_becomes_integers_whole_or_stays_float() -> None:
    assert (
        quantize_network(build_network("h = Relu(x)\ny = Sigmoid(h)", {"x": (4, 16)})).plan.floats
        == {}
    )
    partly = quantize_network(build_network("h = Relu(x)\ny = Cos(h)", {"x": (4, 16)}))
    assert set(partly.plan.floats) == {"Relu_h", "Cos_y"}


def test_a_shape_is_read_off_integers() -> None:
    nodes = "h = Gemm(x, w)\nk = Gemm(h, w)\ns = Shape(h)\nr = Reshape(k, s)\ny = Gemm(r, w)"
    done = quantize_network(build_network(nodes, {"x": (4, 16)}, w=gaussian_array(16, 16)))
    shapes = [n for n in done.qdq.nodes if n.op_type == "Shape"]
    assert all(n.inputs[0].producer().op_type == "QuantizeLinear" for n in shapes)


def test_a_shape_does_not_keep_scores_from_being_real() -> None:
    nodes = "h = Gemm(x, w)\ns = Shape(h)\nf = Flatten<axis=1>(h)\np = Softmax<axis=1>(f)\ny = Reshape(p, s)"
    done = quantize_network(build_network(nodes, {"x": (4, 16)}, w=gaussian_array(16, 16)))
    assert "h" not in done.plan.tensors


FEW = (
    "c = Conv<pads = [1, 1, 1, 1]>(x, w)\nr = Relu(c)\nd = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(r, u)\n"
    "e = Relu(d)\ny = Conv<pads = [1, 1, 1, 1]>(e, v)"
)


def few(channels: int, more: int) -> ModelProto:
    return build_network(
        FEW,
        {"x": (1, 3, 64, 64)},
        w=gaussian_array(channels, 3, 3, 3),
        u=gaussian_array(more, channels, 3, 3),
        v=gaussian_array(16, more, 3, 3),
    )


def test_first_layers_stay_float_where_integers_make_the_model_no_faster() -> None:
    # measured, ms: 0.9 so, 1.35 all in integers, 1.4 all in float (192 × 192 pixels)
    done = quantize_network(few(4, 32))
    assert set(done.plan.floats) == {"Conv_c", "Relu_r"}
    assert "faster in float" in done.plan.floats["Conv_c"]
    assert find_disagreements(done) == []


def test_a_first_layer_stays_float_where_that_makes_the_model_a_third_faster() -> None:
    # measured, ms: 0.098 so, 0.147 all in integers, 0.148 all in float
    nodes = "c = Conv<pads = [1, 1, 1, 1]>(x, w)\nr = Relu(c)\nd = Conv<pads = [1, 1, 1, 1]>(r, u)\ny = Relu(d)"
    weights = {"w": gaussian_array(16, 1, 3, 3), "u": gaussian_array(16, 16, 3, 3)}
    done = quantize_network(build_network(nodes, {"x": (1, 1, 56, 56)}, **weights))
    assert set(done.plan.floats) == {"Conv_c", "Relu_r"}
    assert find_disagreements(done) == []


def test_groups_of_few_channels_stay_float() -> None:
    # measured, ms: 1.0 so, 2.8 all in integers
    nodes = (
        "c = Conv(x, w)\nr = Relu(c)\ng = Conv<pads = [1, 1, 1, 1], group = 16>(r, s)\n"
        "t = Relu(g)\ny = Conv(t, u)"
    )
    weights = {
        "w": gaussian_array(64, 16, 1, 1),
        "s": gaussian_array(64, 4, 3, 3),
        "u": gaussian_array(16, 64, 1, 1),
    }
    done = quantize_network(build_network(nodes, {"x": (1, 16, 64, 64)}, **weights))
    assert set(done.plan.floats) == {"Conv_g", "Relu_t"}
    assert find_disagreements(done) == []


def test_a_model_of_which_no_product_is_worth_integers_has_some() -> None:
    # measured, ms: 0.8 so, 1.4 all in integers, 0.35 all in float
    nodes = "c = Conv<pads = [1, 1, 1, 1]>(x, w)\nr = Relu(c)\nd = Conv<pads = [1, 1, 1, 1]>(r, u)\ny = Relu(d)"
    model = build_network(
        nodes, {"x": (1, 1, 192, 192)}, w=gaussian_array(1, 1, 3, 3), u=gaussian_array(8, 1, 3, 3)
    )
    assert set(quantize_network(model).plan.floats) == {"Conv_d", "Relu_y"}


def test_a_pool_keeps_the_layer_before_it_in_integers() -> None:
    # the pool would run channels first: measured, ms: 2.8 all in integers, 3.9 with Conv_c in float
    nodes = (
        "c = Conv<pads = [1, 1, 1, 1]>(x, w)\nr = Relu(c)\nm = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(r)\n"
        "d = Conv<pads = [1, 1, 1, 1]>(m, u)\ne = Relu(d)\ny = Conv(e, v)"
    )
    weights = {
        "w": gaussian_array(10, 3, 3, 3),
        "u": gaussian_array(16, 10, 3, 3),
        "v": gaussian_array(16, 16, 1, 1),
    }
    assert (
        quantize_network(build_network(nodes, {"x": (1, 3, 64, 64)}, **weights)).plan.floats == {}
    )


def test_a_pool_keeps_the_layer_before_it_in_integers_past_what_stays_float() -> None:
    # O-Net's first layers; the pool would run channels first: measured, ms: 0.33 so, 0.52 with Conv_c in float
    nodes = (
        "c = Conv(x, w)\na = PRelu(c, s)\nm = MaxPool<kernel_shape = [3, 3], strides = [2, 2]>(a)\n"
        "d = Conv(m, u)\ne = Relu(d)\ny = Conv(e, v)"
    )
    weights = {
        "w": gaussian_array(32, 3, 3, 3),
        "u": gaussian_array(64, 32, 3, 3),
        "v": gaussian_array(64, 64, 3, 3),
    }
    done = quantize_network(
        build_network(nodes, {"x": (1, 3, 48, 48)}, s=gaussian_array(32, 1, 1), **weights)
    )
    assert "Conv_c" not in done.plan.floats


def test_a_model_that_gains_keeps_all_integers() -> None:
    assert quantize_network(few(32, 64)).plan.floats == {}


@pytest.mark.parametrize("target", ["litert", "tensorrt"])
def test_other_runtimes_are_not_measured_by_this_one(target: str) -> None:
    assert "Conv_c" not in quantize_network(few(4, 32), target=target).plan.floats


BLOCKS = (
    "c = Conv<pads = [1, 1, 1, 1]>(x, u)\nh = HardSwish(c)\nd = Conv<pads = [1, 1, 1, 1]>(h, v)\n"
    "e = HardSwish(d)\ny = Conv(e, w)"
)


def float_time_of(model: ModelProto, target: str) -> FloatTimeModel:
    graph, row = quantize_network(model).prepared, TARGETS[target]
    fate = assign_precision(graph, row)
    specs = {name: integer.spec for name, integer in fate.quantized_nodes.items()}
    return FloatTimeModel(graph, specs, fate.fused_activations, row)


@pytest.fixture(scope="module")
def float_time() -> FloatTimeModel:
    weights = {
        "u": gaussian_array(32, 32, 3, 3),
        "v": gaussian_array(32, 32, 3, 3),
        "w": gaussian_array(8, 32, 1, 1),
    }
    return float_time_of(build_network(BLOCKS, {"x": (1, 32, 16, 16)}, **weights), "ort")


PIXELS = 16 * 16
WEIGHTS = 32 * 32 * 9
FLOAT, INTEGERS = WEIGHTS * (PIXELS * 0.09 + 0.3), WEIGHTS * (PIXELS * 0.024 + 0.15)
REORDERED, GATHERED = 2 * 0.3 * 32 * PIXELS, PIXELS * (9 * 4 + 32 * 0.25)


def test_a_convolution_in_float_costs_its_products_and_the_activations_beside_it_gain(
    float_time: FloatTimeModel,
) -> None:
    slower, tensor = FLOAT + REORDERED - INTEGERS - GATHERED, 32 * PIXELS
    activation = (1.5 - 2.3) * tensor  # in float, and as a sum and a product of integers
    crossings = 2 * tensor
    nodes = ["HardSwish_h", "Conv_d", "HardSwish_e"]
    assert float_time(nodes) == pytest.approx(slower + 2 * activation + crossings)
    assert float_time(["Conv_d"]) == pytest.approx(float_time(nodes))


def test_what_is_left_float_one_after_another_costs_what_it_does_at_once(
    float_time: FloatTimeModel,
) -> None:
    first, then = ["Conv_c", "HardSwish_h"], ["Conv_d", "HardSwish_e", "Conv_y"]
    assert float_time(first) + float_time(then, first) == pytest.approx(float_time([*first, *then]))
    assert float_time(first, first) == 0


def test_float_nodes_far_away_change_no_time(float_time: FloatTimeModel) -> None:
    nodes = ["Conv_c", "HardSwish_h", "Conv_d", "HardSwish_e", "Conv_y"]
    sets = [frozenset(some) for count in (1, 2, 3) for some in itertools.combinations(nodes, count)]
    for more, floats in itertools.product(sets, sets):
        rest = floats - more
        assert float_time(more, rest) == float_time._passes(more, rest)


def test_what_stands_between_floats_goes_with_them(float_time: FloatTimeModel) -> None:
    both = float_time(["Conv_c", "Conv_d"])
    assert both == pytest.approx(float_time(["Conv_c", "HardSwish_h", "Conv_d"]))
    assert both < float_time(["Conv_c"]) + float_time(["Conv_d"])


def test_all_in_float_is_what_a_model_in_float_takes(float_time: FloatTimeModel) -> None:
    everything = ["Conv_c", "HardSwish_h", "Conv_d", "HardSwish_e", "Conv_y"]
    last = 16 * PIXELS * 32 * 0.09 + 0.3 * (32 + 8) * PIXELS + 8 * 32 * 0.3  # a block is whole
    activations = 2 * 1.5 * 32 * PIXELS
    assert float_time.all_float_time == pytest.approx(2 * (FLOAT + REORDERED) + activations + last)
    assert 0 < float_time(everything) < float_time.all_float_time


def test_an_accelerator_computes_on_integers_for_nothing() -> None:
    by_channel = "c = Conv<pads = [1, 1, 1, 1], group = 8>(x, u)\ny = Conv(c, w)"
    shapes = {"u": gaussian_array(8, 1, 3, 3), "w": gaussian_array(8, 8, 1, 1)}
    model = build_network(by_channel, {"x": (1, 8, 16, 16)}, **shapes)
    assert float_time_of(model, "ort")(["Conv_c"]) < 0
    work, reordered = 16 * PIXELS * 9 * 0.11, 0.3 * 16 * PIXELS
    crossing, at_input = 1.55 * 8 * PIXELS, 8 * PIXELS
    found = float_time_of(model, "litert")(["Conv_c"])
    assert found == pytest.approx(work + reordered + crossing - at_input)


def test_data_movement_that_no_integers_surround_stays_float() -> None:
    """As the zero state of an LSTM: each Slice reads a large tensor of zeros, and a float operator reads it."""
    model = build_network(
        "h = Gemm(x, w)\nk = Cos(x)\nm = Slice(k, zero, one, zero)\ny = Sin(m)",
        {"x": (64, 256)},
        w=gaussian_array(256, 16),
        zero=[0],
        one=[1],
        outputs=["h", "y"],
    )
    floats = quantize_network(model).plan.floats
    assert set(floats) == {"Cos_k", "Slice_m", "Sin_y"}
    assert floats["Slice_m"].startswith("neighbours are float")
