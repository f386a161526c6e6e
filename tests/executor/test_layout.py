"""Channels last and back; numpy's own transposition is the oracle, and ONNX Runtime for whole graphs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from networks import gaussian_array
from qdq_builder import QdqBuilder

from ptq.core.types import INT8, QuantParams
from ptq.executor.arithmetics.data_movement import DATA_MOVEMENT_OPS, MULTI_INPUT_OPS
from ptq.executor.arithmetics.node_site import Site
from ptq.executor.executor import Executor
from ptq.executor.layout import (
    Tensor,
    to_attrs_channels_last,
    to_axis_channels_last,
    to_weight_channels_last,
    to_weight_qparams_channels_last,
)
from ptq.model.session.session import Session


def last(array: np.ndarray) -> np.ndarray:
    return np.moveaxis(array, 1, -1)


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 3, 4), (2, 3)])
def test_there_and_back_is_the_same(shape: tuple[int, ...]) -> None:
    array = gaussian_array(*shape)
    moved = Tensor(array).to_channels_last()
    assert np.array_equal(moved, last(array) if len(shape) > 2 else array)
    assert np.array_equal(Tensor(moved, len(shape) > 2).to_channels_first(), array)


@pytest.mark.parametrize("shape", [(), (1,), (5,), (4, 1), (3, 1, 1), (1, 3, 4, 5)])
def test_a_broadcast_operand_meets_the_same_elements(shape: tuple[int, ...]) -> None:
    x, k = gaussian_array(2, 3, 4, 5), gaussian_array(*shape)
    assert np.array_equal(last(x) + Tensor(k).to_channels_last(4), last(x + k))


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_an_axis_is_found_again(rank: int) -> None:
    shape = tuple(range(2, 2 + rank))
    moved = last(np.zeros(shape)).shape
    for axis in range(-rank, rank):
        assert moved[to_axis_channels_last(axis, rank)] == shape[axis]


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1])
def test_concat_goes_along_the_same_axis(axis: int) -> None:
    x = gaussian_array(2, 3, 4, 5)
    params = QuantParams.per_tensor(1.0, 0, INT8)
    attrs = to_attrs_channels_last("Concat", {"axis": axis}, 4)
    kernel = MULTI_INPUT_OPS["Concat"](Site("Concat", attrs, (params, params), (params,)))
    assert np.array_equal(kernel([last(x), last(x)]), last(np.concatenate([x, x], axis)))


@pytest.mark.parametrize("axes", [None, *itertools.combinations(range(4), 2), (-1,), (1,)])
def test_pad_pads_the_same_sides(axes: tuple[int, ...] | None) -> None:
    x = np.arange(2 * 3 * 4 * 5, dtype=np.int8).reshape(2, 3, 4, 5)
    pads = np.arange(2 * (4 if axes is None else len(axes)))
    named = {} if axes is None else {"axes": np.array(axes)}
    attrs = to_attrs_channels_last("Pad", {"pads": pads, **named}, 4)
    params = QuantParams.per_tensor(1.0, 0, INT8)
    kernel = DATA_MOVEMENT_OPS["Pad"](Site("Pad", attrs, (params,), (params,)))
    sides = [(0, 0)] * 4
    for axis, begin, end in zip(axes or range(4), *pads.reshape(2, -1), strict=True):
        sides[axis] = (int(begin), int(end))
    assert np.array_equal(kernel([last(x)]), last(np.pad(x, sides)))


@pytest.mark.parametrize("computed", [("pads",), ("axes",), ("pads", "axes"), ("pads", "all axes")])
def test_a_pad_behind_a_conv_gets_its_sides_at_run_time(computed: tuple[str, ...]) -> None:
    build = QdqBuilder()
    x = build.input([2, 3, 8, 7])
    zero = build.node("Sub", *[build.node("Size", x)] * 2)

    def operand(name: str, values: list[int]) -> str:
        constant = build.constant(np.array(values))
        return build.node("Add", constant, zero) if name in computed else constant

    of_all = "all axes" in computed
    pads = operand("pads", [0, 1, 2, 0, 0, 0, 0, 1] if of_all else [1, 3, 0, 2])
    axes = [] if of_all else ["", operand("axes", [1, -1])]
    conv = build.requantize(build.node("Conv", x, build.weight(4, 3, 3, 3)))
    y = build.requantize(build.node("Pad", conv, pads, *axes))
    build.output(y)
    graph, feed = build.to_graph(), {"input0": gaussian_array(2, 3, 8, 7)}
    executor = Executor(graph)
    assert ("Pad",) not in executor.islands.values()
    assert np.array_equal(executor.run(feed)[y], Session(graph, threads=1).run(feed)[0])


def test_the_weight_of_a_convolution_starts_with_its_outputs() -> None:
    w = gaussian_array(8, 3, 2, 5)
    assert np.array_equal(to_weight_channels_last("Conv", w, 1), w.transpose(0, 2, 3, 1))


def test_a_transposed_weight_is_regrouped_by_outputs() -> None:
    w = gaussian_array(6, 2, 3, 4)  # 6 inputs in 3 groups of 2, each with 2 outputs
    moved = to_weight_channels_last("ConvTranspose", w, 3)
    assert moved.shape == (6, 3, 4, 2)
    for group, output, i in itertools.product(range(3), range(2), range(2)):
        assert np.array_equal(moved[2 * group + output, :, :, i], w[2 * group + i, output])


def test_the_groups_of_a_transposed_convolution_repeat_their_scales() -> None:
    params = QuantParams(np.float32([1, 2]), np.array([0, 0]), INT8, 1)
    moved = to_weight_qparams_channels_last("ConvTranspose", params, 3)
    assert moved.scale.tolist() == [1, 2, 1, 2, 1, 2]
    assert moved.axis == 0
    assert to_weight_qparams_channels_last("Conv", params, 3).scale.tolist() == [1, 2]
