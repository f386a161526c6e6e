"""Scales of weights and biases; float64 and LiteRT's 8-bit specification are the oracles."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from cases import quantized_case
from networks import (
    build_network,
    gaussian_array,
    optimized_kernels,
    quantize_network,
    worst_sqnr_db,
)
from parts import CONV, ROW, SAME, WB, B, V, W, conv_network

from ptq.core.types import INT8_WEIGHT, INT32
from ptq.model.node import get_constant
from ptq.rewrite.emit.vnni_saturation import find_saturable_nodes

TRANSPOSED = "y = ConvTranspose<strides=[2,2],group=2>(x, w)"
WEIGHTS = {
    "Conv": (build_network("y = Conv(x, w)", w=W), 0, W),
    "ConvTranspose": (
        build_network(TRANSPOSED, {"x": (1, 8, 4, 4)}, w=gaussian_array(8, 3, 2, 2)),
        1,
        gaussian_array(8, 3, 2, 2),
    ),
    "Gemm": (
        build_network("y = Gemm(x, w)", ROW, w=gaussian_array(16, 8)),
        1,
        gaussian_array(16, 8),
    ),
    "Gemm transB": (
        build_network("y = Gemm<transB=1>(x, w)", ROW, w=gaussian_array(8, 16)),
        0,
        gaussian_array(8, 16),
    ),
    "MatMul": (
        build_network("y = MatMul(x, w)", {"x": (1, 2, 16)}, w=gaussian_array(16, 8)),
        1,
        gaussian_array(16, 8),
    ),
}


def weight_of(model: onnx.ModelProto, **settings: bool) -> tuple[object, np.ndarray]:
    """The weight's parameters and its integers in the graph."""
    done = quantize_network(model, **settings)  # type: ignore[arg-type]
    ((_, params),) = [(k, p) for k, p in done.plan.operands.items() if k[1] == 1]
    stored = next(
        get_constant(v)
        for n in done.qdq.nodes
        for v in n.inputs
        if v is not None and v.name == "w_quantized"
    )
    assert stored is not None
    return params, stored


@pytest.mark.parametrize("name", WEIGHTS)
def test_each_output_channel_has_the_scale_of_its_largest_weight(name: str) -> None:
    model, axis, weight = WEIGHTS[name]
    params, stored = weight_of(model)
    others = tuple(a for a in range(weight.ndim) if a != axis)
    expected = np.abs(weight.astype(np.float64)).max(axis=others) / 127
    assert params.axis == axis
    assert params.qtype == INT8_WEIGHT
    assert not params.zero_point.any()
    np.testing.assert_allclose(params.scale, expected, rtol=1e-7)
    assert np.abs(stored.astype(int)).max() == 127
    assert (np.abs(stored.astype(int)).max(axis=others) == 127).all()


REDUCED = {name: model for name, (model, _, _) in WEIGHTS.items() if name != "ConvTranspose"} | {
    "grouped": build_network(
        "y = Conv<group=2>(x, w)", {"x": (1, 6, 8, 8)}, w=gaussian_array(8, 3, 3, 3)
    ),
    "batches": build_network("y = MatMul(x, w)", {"x": (3, 2, 16)}, w=gaussian_array(3, 16, 8)),
}


@pytest.mark.parametrize("per_tensor", [False, True])
@pytest.mark.parametrize("name", REDUCED)
def test_reduced_no_two_neighbours_saturate_and_scales_at_most_double(
    name: str, per_tensor: bool
) -> None:
    plain, reduced = (
        quantize_network(REDUCED[name], per_tensor=per_tensor, reduced=r) for r in (False, True)
    )
    assert find_saturable_nodes(plain.qdq)
    assert find_saturable_nodes(reduced.qdq) == ()
    ratios = [
        reduced.plan.operands[key].scale / params.scale
        for key, params in plain.plan.operands.items()
        if key[1] == 1
    ]
    assert all((ratio >= 1).all() and (ratio < 2.01).all() for ratio in ratios)


@pytest.mark.parametrize("group", [1, 2])
def test_reduced_for_openvino_no_two_channels_of_a_position_saturate(group: int) -> None:
    """Three channels: its kernels leave the third one alone, where ONNX Runtime goes on to the next position."""
    model = build_network(
        f"t = ConvTranspose<strides=[2,2],group={group}>(x, v)\ny = Conv(t, w)",
        {"x": (1, 6, 4, 4)},
        v=np.abs(gaussian_array(6, 3, 2, 2)),
        w=np.abs(gaussian_array(8, 3 * group, 3, 3)),
    )
    for target, saturates in (("openvino", False), ("ort", True)):
        reduced = quantize_network(model, target=target, reduced=True).qdq
        assert find_saturable_nodes(reduced) == ()
        assert bool(find_saturable_nodes(reduced, pairs_channels=True)) == saturates


def test_reduced_a_convolution_whose_products_are_not_added_in_pairs_keeps_its_scale() -> None:
    model = build_network(
        "y = Conv<group=6>(x, w)", {"x": (1, 6, 8, 8)}, w=gaussian_array(6, 1, 3, 3)
    )
    plain, reduced = (quantize_network(model, reduced=r).plan.operands for r in (False, True))
    assert plain == reduced


@pytest.mark.parametrize("name", WEIGHTS)
def test_per_tensor_there_is_one_scale(name: str) -> None:
    model, _, weight = WEIGHTS[name]
    params, _ = weight_of(model, per_tensor=True)
    assert params.axis is None
    assert float(params.scale) == pytest.approx(float(np.abs(weight).max()) / 127, rel=1e-6)


def test_a_matmul_by_several_matrices_has_one_scale() -> None:
    params, _ = weight_of(
        build_network("y = MatMul(x, w)", {"x": (2, 5, 16)}, w=gaussian_array(2, 16, 8))
    )
    assert params.axis is None


@pytest.mark.parametrize(
    "model",
    [
        conv_network("y = Relu(c)"),
        build_network("y = Gemm(x, w, b)", ROW, w=gaussian_array(16, 8), b=B),
    ],
)
def test_a_bias_has_the_product_of_the_scales_in_float32(model: onnx.ModelProto) -> None:
    done = quantize_network(model)
    ((node, _),) = [key for key in done.plan.operands if key[1] == 2]
    bias, weight = done.plan.operands[node, 2], done.plan.operands[node, 1]
    assert bias.qtype == INT32
    assert not bias.zero_point.any()
    expected = done.plan.tensors["x"].scale * weight.scale
    assert bias.scale.dtype == np.float32
    assert np.array_equal(bias.scale, expected)


def test_the_groups_of_a_transposed_convolution_share_their_scales() -> None:
    model = build_network(
        "y = ConvTranspose<group=2>(x, w, b)",
        {"x": (1, 8, 4, 4)},
        w=gaussian_array(8, 4, 2, 2),
        b=B,
    )
    done = quantize_network(model)
    bias = done.plan.operands["ConvTranspose_y", 2]
    weight = done.plan.operands["ConvTranspose_y", 1]
    assert weight.scale.size == 4
    assert np.array_equal(bias.scale, done.plan.tensors["x"].scale * np.tile(weight.scale, 2))
    assert worst_sqnr_db(done) > 30


@pytest.mark.parametrize(
    ("name", "floor"),
    [
        ("tiny weights, huge bias", 50),
        ("one tiny channel", 35),
        ("dead channel", 35),
        ("zero weights, bias", 45),
    ],
)
def test_a_bias_that_would_not_fit_widens_the_weight_scale(name: str, floor: float) -> None:
    done = quantized_case(name)
    bias = done.plan.operands["Conv_c", 2]
    array = next(get_constant(n.inputs[2]) for n in done.prepared.nodes if n.name == "Conv_c")
    integers = np.asarray(array, np.float64) / bias.scale
    assert np.abs(integers).max() < 2**31 - 3 * 9 * 255 * 127
    assert worst_sqnr_db(done) > floor
    assert optimized_kernels(done.qdq)["QLinearConv"] == 1


def test_the_reason_says_what_was_widened() -> None:
    plan = quantized_case("tiny weights, huge bias").plan
    assert "8 scale(s) widened" in str(plan.why["Conv_c[1]"])
    assert "for the bias to fit int32" in str(plan.why["Conv_c[1]"])
    assert str(quantized_case("relu").plan.why["Conv_c[1]"]) == (
        "observed: largest absolute value, per output channel"
    )


def test_a_weight_that_two_convolutions_share_serves_both_input_scales() -> None:
    model = build_network(
        CONV + f"k = Mul(c, t)\nd = Conv{SAME}(c, v, b)\ne = Conv{SAME}(k, v, b)\ny = Add(d, e)",
        v=V,
        t=np.float32(30) * gaussian_array(8, 1, 1),
        **WB,
    )
    done = quantize_network(model)
    biases = [p.scale for (n, i), p in done.plan.operands.items() if i == 2 and n != "Conv_c"]
    assert not np.array_equal(*biases)
    weights = [p.scale for (n, i), p in done.plan.operands.items() if i == 1 and n != "Conv_c"]
    assert np.array_equal(*weights)
    names = [v.name for n in done.qdq.nodes for v in n.inputs if v is not None]
    assert names.count("v_quantized") == 2
    assert worst_sqnr_db(done) > 30


def test_a_bias_of_a_row_is_stored_one_value_a_channel() -> None:
    done = quantized_case("gemm C of rank 2")
    stored = next(
        v for n in done.qdq.nodes for v in n.inputs if v is not None and v.name == "k_quantized"
    )
    assert tuple(stored.shape) == (8,)
