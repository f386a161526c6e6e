"""Oracle: ONNX's reference implementation; a node's output is its rows times its columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ptq.core.types import UINT8, QuantParams
from ptq.model.graph import Graph
from ptq.solver.rounding.weighted_sums import LinearOp

PARAMS = QuantParams.per_tensor(0.5, 7, UINT8)

CASES: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "plain": ("Conv", (1, 3, 6, 7), (4, 3, 3, 3), {}),
    "padded": ("Conv", (1, 3, 6, 7), (4, 3, 3, 2), {"pads": [1, 2, 0, 1]}),
    "strided": ("Conv", (1, 3, 9, 7), (4, 3, 3, 3), {"strides": [2, 3], "pads": [1, 1, 1, 1]}),
    "dilated": ("Conv", (1, 3, 9, 8), (4, 3, 2, 3), {"dilations": [3, 2], "pads": [0, 1, 2, 0]}),
    "same": ("Conv", (1, 2, 6, 7), (4, 2, 3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    "depthwise": ("Conv", (1, 4, 6, 7), (8, 1, 3, 3), {"group": 4, "pads": [1, 1, 1, 1]}),
    "grouped": ("Conv", (1, 6, 5, 5), (4, 3, 3, 3), {"group": 2}),
    "several images": ("Conv", (3, 2, 5, 5), (4, 2, 3, 3), {}),
    "one axis": ("Conv", (1, 3, 9), (4, 3, 4), {"pads": [1, 2]}),
    "three axes": ("Conv", (1, 2, 4, 5, 3), (3, 2, 2, 2, 2), {}),
    "matrix": ("MatMul", (2, 5, 6), (6, 4), {}),
    "layer": ("Gemm", (3, 6), (6, 4), {}),
    "transposed": ("Gemm", (3, 6), (4, 6), {"transB": 1}),
}


def case(name: str) -> tuple[LinearOp, Any, np.ndarray, np.ndarray]:
    op, shape, weight_shape, attrs = CASES[name]
    rng, rank = np.random.default_rng(0), 2 if op == "Gemm" else len(shape)
    weight = rng.integers(-9, 10, weight_shape).astype(np.float32)
    node = helper.make_node(op, ["x", "w"], ["y"], name="n", **attrs)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * rank)],
        [numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    sums = LinearOp(next(iter(Graph.from_proto(model).nodes)))
    real = rng.integers(-7, 249, (2, *shape)).astype(np.float32) / 2
    return sums, ReferenceEvaluator(model), weight, real


@pytest.mark.parametrize("name", CASES)
def test_rows_times_columns_are_the_output(name: str) -> None:
    sums, reference, weight, real = case(name)
    rows = np.concatenate(sums.sample_rows(real, PARAMS, 0, 10**6), axis=2).astype(np.float64)
    outputs = np.stack([reference.run(None, {"x": 2 * x})[0] for x in real])
    if CASES[name][0] == "Conv":  # samples, images, channels, places
        outputs = outputs.reshape(*outputs.shape[:3], -1).transpose(0, 1, 3, 2)
    expected = outputs.reshape(-1, outputs.shape[-1])
    found = np.concatenate(list(rows.transpose(0, 2, 1) @ sums.weight_columns()), axis=1)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(sums.from_columns(sums.weight_columns()), weight)
    assert sums.weight_columns().shape == (sums.groups, sums.length, sums.outputs_per_group)


@pytest.mark.parametrize("name", ["padded", "grouped", "matrix"])
def test_some_rows_are_the_same_however_samples_are_batched(name: str) -> None:
    sums, _, _, real = case(name)
    together = sums.sample_rows(real, PARAMS, 5, 4)
    for i, rows in enumerate(together):
        [alone] = sums.sample_rows(real[i : i + 1], PARAMS, 5 + i, 4)
        np.testing.assert_array_equal(rows, alone)
        assert rows.shape[2] == 4


@pytest.mark.parametrize("name", ["padded", "dilated", "several images"])
def test_few_rows_are_some_of_all(name: str) -> None:
    """Few windows are taken before they are rounded, many after."""
    sums, _, _, real = case(name)
    [every, _] = sums.sample_rows(real, PARAMS, 0, 10**6)
    [few, _] = sums.sample_rows(real, PARAMS, 0, 2)
    assert few.shape[2] == 2
    assert set(map(tuple, few[0].T.tolist())) <= set(map(tuple, every[0].T.tolist()))


def test_some_rows_are_different_ones_and_spread_over_all() -> None:
    sums, _, _, _ = case("plain")
    number = np.arange(4 * 5, dtype=np.float32).reshape(4, 5)
    image = np.zeros((1, 1, 3, 6, 7), np.float32)
    image[0, 0, 0, :4, :5] = number
    wide = QuantParams.per_tensor(1.0, 0, UINT8)
    first = sums.sample_rows(image, wide, 0, 10)[0][0, 0]
    assert len(set(first.tolist())) == 10
    second = sums.sample_rows(image, wide, 1, 10)[0][0, 0]
    assert set(first.tolist()) | set(second.tolist()) == set(range(20))


@pytest.mark.parametrize("name", CASES)
def test_what_rounding_adds_is_summed_by_channel(name: str) -> None:
    sums, _, _, real = case(name)
    coarse = QuantParams.per_tensor(0.75, 7, UINT8)
    added = coarse.dequantize(coarse.quantize(real)).astype(np.float64) - real
    axis = 2 if CASES[name][0] == "Conv" else real.ndim - 1
    by_channel = np.moveaxis(added, axis, 0).reshape(sums.input_channels, -1).sum(axis=1)
    assert np.abs(by_channel).max() > 0.5
    found, count = sums.rounding_error_sums(real, coarse, 0, 10**6)
    np.testing.assert_allclose(found, by_channel, atol=1e-3)
    assert count == real.size // sums.input_channels
    exact, _ = sums.rounding_error_sums(real, PARAMS, 0, 10**6)
    assert not exact.any()  # every input is a multiple of this scale


@pytest.mark.parametrize("name", ["padded", "several images", "matrix"])
def test_some_values_of_a_channel_have_the_mean_of_all_if_they_are_equal(name: str) -> None:
    sums, _, _, real = case(name)
    axis = 2 if CASES[name][0] == "Conv" else real.ndim - 1
    number = np.arange(1, real.shape[axis] + 1, dtype=np.float32).reshape(
        [-1 if a == axis else 1 for a in range(real.ndim)]
    )
    real[:] = 0.3 * number
    whole, count = sums.rounding_error_sums(real, PARAMS, 0, 10**6)
    some, fewer = sums.rounding_error_sums(real, PARAMS, 0, 2)
    assert fewer < count
    np.testing.assert_allclose(some / fewer, whole / count, rtol=1e-5)
