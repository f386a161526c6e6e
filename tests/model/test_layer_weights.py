"""Oracle: ONNX Runtime, which shows the channels that a change of the weight reaches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest
from networks import build_network
from numpy.typing import NDArray

from ptq.model.graph import Graph
from ptq.model.node import Node, get_attributes
from ptq.model.session.session import Session
from ptq.model.weights.layer_weights import (
    count_layer_channels,
    count_output_channels,
    count_summed_inputs,
    get_channel_axis,
    get_matrix_channel_axis,
    scale_output_channels,
    view_input_channels,
    view_input_output_matrix,
    view_output_channels,
    view_summation_order_matrix,
)


@dataclass(frozen=True)
class Case:
    """One layer of three or more output channels.

    Attributes:
        text: The operator with its attributes, of x and w.
        x: Shape of x.
        w: Shape of w.
        channels: The axis of the input's and of the output's channels.
        summed: Products of one sum; None where that depends on the place.
    """

    text: str
    x: tuple[int, ...]
    w: tuple[int, ...]
    channels: int
    summed: int | None

    def build(self, weight: NDArray[Any]) -> onnx.ModelProto:
        return build_network(f"y = {self.text}(x, w)", {"x": self.x}, w=weight)

    def run(self, weight: NDArray[Any], x: NDArray[Any]) -> NDArray[Any]:
        (y,) = Session(Graph.from_proto(self.build(weight)), threads=1).run({"x": x})
        return np.moveaxis(y, self.channels, 0)

    def node(self) -> Node:
        return Graph.from_proto(self.build(np.ones(self.w, np.float32))).nodes[0]


CASES = {
    "Conv": Case("Conv", (1, 4, 5, 5), (6, 4, 3, 2), 1, 24),
    "Conv, two groups": Case("Conv<group = 2>", (1, 4, 5, 5), (6, 2, 3, 2), 1, 12),
    "depthwise Conv": Case("Conv<group = 4>", (1, 4, 5, 5), (4, 1, 3, 2), 1, 6),
    "ConvTranspose": Case("ConvTranspose", (1, 4, 5, 5), (4, 6, 3, 2), 1, None),
    "ConvTranspose, two groups": Case(
        "ConvTranspose<group = 2>", (1, 4, 5, 5), (4, 3, 3, 2), 1, None
    ),
    "Gemm": Case("Gemm", (2, 4), (4, 6), 1, 4),
    "Gemm transB": Case("Gemm<transB = 1>", (2, 4), (6, 4), 1, 4),
    "MatMul": Case("MatMul", (2, 4), (4, 6), -1, 4),
    "MatMul in a batch": Case("MatMul", (3, 2, 4), (3, 4, 6), -1, 4),
}
LAYERS = {name: case for name, case in CASES.items() if case.text.startswith(("Conv<", "Gemm"))}
LAYERS["Conv"] = CASES["Conv"]
SCALED = LAYERS | {n: c for n, c in CASES.items() if n.startswith("ConvTranspose")}
PRODUCTS = {name: case for name, case in CASES.items() if case.text.startswith(("Gemm", "MatMul"))}


def _ones(case: Case) -> tuple[NDArray[Any], NDArray[Any]]:
    return np.ones(case.w, np.float32), np.ones(case.x, np.float32)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_slice_along_the_channel_axis_reaches_its_output_channels_alone(case: Case) -> None:
    weight, x = _ones(case)
    axis = get_channel_axis(case.node(), len(case.w))
    assert axis is not None
    np.moveaxis(weight, axis, 0)[1] = 0
    y = case.run(weight, x)
    empty = [channel for channel, values in enumerate(y) if not values.any()]
    assert empty == list(range(1, len(y), case.w[axis]))  # once in each group of a ConvTranspose


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_output_channels_are_counted_as_they_come_out(case: Case) -> None:
    assert count_output_channels(case.node(), case.w) == len(case.run(*_ones(case)))


@pytest.mark.parametrize("case", [c for c in CASES.values() if c.summed is not None])
def test_a_sum_of_ones_is_the_number_of_its_inputs(case: Case) -> None:
    assert count_summed_inputs(case.node(), case.w) == case.summed
    assert np.all(case.run(*_ones(case)) == case.summed)


@pytest.mark.parametrize("case", LAYERS.values(), ids=LAYERS)
def test_what_is_written_by_output_channel_reaches_that_channel_alone(case: Case) -> None:
    weight, x = _ones(case)
    view = view_output_channels(case.node(), weight)
    assert view.shape == (len(case.run(weight, x)), case.summed)
    view[2] = 0
    y = case.run(weight, x)
    assert [channel for channel, values in enumerate(y) if not values.any()] == [2]


@pytest.mark.parametrize("case", SCALED.values(), ids=SCALED)
def test_factors_of_output_channels_multiply_the_output(case: Case) -> None:
    weight, x = _ones(case)
    y = case.run(weight, x)
    factors = 2.0 ** np.arange(len(y))
    scaled = scale_output_channels(case.node(), weight, factors).astype(np.float32)
    assert np.array_equal(case.run(scaled, x), (y.T * factors).T)
    assert np.array_equal(scale_output_channels(case.node(), weight, np.array(2.0)), 2 * weight)


@pytest.mark.parametrize("case", LAYERS.values(), ids=LAYERS)
def test_what_is_written_by_input_channel_hides_that_channel_alone(case: Case) -> None:
    weight, x = _ones(case)
    view = view_input_channels(case.node(), weight, 1)
    groups, _, channels, _ = view.shape
    assert groups * channels == case.x[1]
    view[groups - 1, :, channels - 1] = 0  # the last channel
    hidden = x.copy()
    hidden[:, -1] = 0
    assert np.array_equal(case.run(weight, x), case.run(np.ones_like(weight), hidden))


def test_several_inputs_of_a_gemm_may_belong_to_one_channel() -> None:
    weight = np.arange(24, dtype=np.float32).reshape(4, 6)  # (inputs, outputs)
    view = view_input_channels(CASES["Gemm"].node(), weight, 2)
    assert np.array_equal(view[0, :, 1], weight[2:].T)


@pytest.mark.parametrize("case", PRODUCTS.values(), ids=PRODUCTS)
def test_the_matrix_of_a_product_is_what_is_multiplied_by_from_the_right(case: Case) -> None:
    rng = np.random.default_rng(0)
    weight = rng.integers(-8, 8, case.w).astype(np.float32)
    x = rng.integers(-8, 8, case.x).astype(np.float32)
    attributes = get_attributes(case.node())
    matrix = view_input_output_matrix(weight, attributes)
    assert np.array_equal(case.run(weight, x), np.moveaxis(x @ matrix, case.channels, 0))
    assert np.array_equal(view_input_output_matrix(matrix, attributes), weight)
    axis = get_matrix_channel_axis(attributes, weight.ndim)
    assert np.array_equal(np.moveaxis(weight, axis, -1), matrix)


def _node(text: str, **weights: NDArray[Any]) -> Node:
    graph = Graph.from_proto(build_network(f"y = {text}", {"x": (2, 4)}, **weights))
    return graph.nodes[0]


@pytest.mark.parametrize(
    ("text", "weights", "channels"),
    [
        ("Gemm(x, w)", {"w": np.ones((4, 6))}, 6),
        ("Gemm(x, w, b)", {"w": np.ones((4, 6)), "b": np.ones(6)}, 6),
        ("Gemm<transB = 1>(x, w)", {"w": np.ones((6, 4))}, 6),
        ("Gemm(x, w, b)", {"w": np.ones((4, 6)), "b": np.ones((1, 6))}, None),
        ("Gemm<alpha = 2.0>(x, w)", {"w": np.ones((4, 6))}, None),
        ("Gemm<transA = 1>(x, w)", {"w": np.ones((2, 6))}, None),
        ("MatMul(x, w)", {"w": np.ones((4, 6))}, None),
        ("Gemm<transB = 1>(x, x)", {}, None),
    ],
)
def test_a_layer_is_plain_and_has_constants_of_its_own(
    text: str, weights: dict[str, NDArray[Any]], channels: int | None
) -> None:
    constants = {name: array.astype(np.float32) for name, array in weights.items()}
    assert count_layer_channels(_node(text, **constants)) == channels


def test_an_operator_without_weight_layout_has_no_channel_axis() -> None:
    node = _node("Mul(x, w)", w=np.ones((1, 4), np.float32))
    assert get_channel_axis(node, 2) is None


def test_products_of_a_convolution_are_added_position_by_position_and_channel_by_channel() -> None:
    weight = np.arange(2 * 4 * 2 * 2).reshape(2, 4, 2, 2)
    columns = view_summation_order_matrix(CASES["Conv"].node(), weight)
    assert columns is not None
    order = [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15]
    assert columns.T.tolist() == [order, [16 + i for i in order]]


@pytest.mark.parametrize("case", PRODUCTS.values(), ids=PRODUCTS)
def test_products_of_a_matrix_are_added_along_its_inputs(case: Case) -> None:
    columns = view_summation_order_matrix(case.node(), np.ones(case.w))
    assert columns is not None
    assert columns.shape[-2:] == (4, 6)


@pytest.mark.parametrize("name", ["depthwise Conv", "ConvTranspose", "ConvTranspose, two groups"])
def test_depthwise_and_transposed_convolutions_add_no_pairs(name: str) -> None:
    assert view_summation_order_matrix(CASES[name].node(), np.ones(CASES[name].w)) is None


def test_a_vector_is_a_matrix_of_one_column() -> None:
    """ONNX Runtime 1.32.0 on an emulated Haswell adds its products in pairs, as those of one column."""
    columns = view_summation_order_matrix(CASES["MatMul"].node(), np.arange(4))
    assert columns is not None
    assert columns.tolist() == [[0], [1], [2], [3]]
