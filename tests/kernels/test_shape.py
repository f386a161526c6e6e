"""Data movement against ONNX Runtime, or against its inverse."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from ptq.kernels.shape import (
    flatten,
    move_batch_to_space,
    move_depth_to_space,
    move_space_to_batch,
    move_space_to_depth,
    pad,
    reshape,
    slice_axes,
    split_part,
)

X = np.random.default_rng(0).integers(-128, 128, (2, 4, 6, 9)).astype(np.int8)


def onnxruntime_output(op: str, x: Any, operands: list[Any], **attrs: Any) -> Any:
    names = [f"i{n}" for n in range(len(operands))]
    graph = helper.make_graph(
        [helper.make_node(op, ["x", *names], ["y"], **attrs)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(np.asarray(o), n) for o, n in zip(operands, names, strict=True)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"x": x.astype(np.float32)})[0].astype(x.dtype)


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps"),
    [
        ([1], [3], [1], [1]),
        ([0, 1], [2, -1], [0, 3], [1, 2]),
        ([-1], [-100], [3], [-2]),
        ([5], [0], [2], [-1]),
        ([-3, 0], [1000, 2**31], [1, 3], [1, 4]),
        ([-1], [-4], [2], [-1]),
        ([-100], [-200], [2], [-1]),
        ([-7], [-100], [2], [-2]),
        ([-100], [3], [2], [1]),
        ([-1], [2**31 - 1], [2], [-1]),
        ([-1], [2**63 - 1], [2], [-2]),
        ([-1], [2**31 - 2], [2], [-1]),
        ([1], [2**63 - 1], [2], [1]),
    ],
)
def test_slice_is_onnxruntimes(
    starts: list[int], ends: list[int], axes: list[int], steps: list[int]
) -> None:
    operands = [np.array(v, np.int64) for v in (starts, ends, axes, steps)]
    expected = onnxruntime_output("Slice", X, operands)
    np.testing.assert_array_equal(slice_axes(X, starts, ends, axes, steps), expected)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_pad_is_onnxruntimes(mode: str) -> None:
    pads = [0, 1, 2, 0, 0, 2, 0, 3]
    filling = [np.float32(7)] if mode == "constant" else []
    expected = onnxruntime_output("Pad", X, [np.array(pads, np.int64), *filling], mode=mode)
    np.testing.assert_array_equal(pad(X, pads, None, mode, 7), expected)


def test_pad_of_some_axes_crops_with_negative_pads() -> None:
    padded = pad(X, [-1, 2, 1, -3], [1, 3], "constant", 5)
    expected = np.pad(X[:, 1:, :, :-3], [(0, 0), (0, 1), (0, 0), (2, 0)], constant_values=5)
    np.testing.assert_array_equal(padded, expected)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space_is_onnxruntimes(mode: str) -> None:
    x = np.arange(2 * 12 * 2 * 3, dtype=np.uint8).reshape(2, 12, 2, 3)
    expected = onnxruntime_output("DepthToSpace", x, [], blocksize=2, mode=mode)
    got = move_depth_to_space(np.moveaxis(x, 1, -1), 2, mode)
    np.testing.assert_array_equal(np.moveaxis(got, -1, 1), expected)


def test_space_to_depth_is_onnxruntimes() -> None:
    x = np.arange(2 * 3 * 4 * 6, dtype=np.uint8).reshape(2, 3, 4, 6)
    expected = onnxruntime_output("SpaceToDepth", x, [], blocksize=2)
    got = move_space_to_depth(np.moveaxis(x, 1, -1), 2)
    np.testing.assert_array_equal(np.moveaxis(got, -1, 1), expected)


def test_a_split_into_no_sizes_is_one_into_equal_parts() -> None:
    expected = onnxruntime_output("Split", X[:, :, :, :1], [], axis=1, num_outputs=1)
    np.testing.assert_array_equal(split_part(X[:, :, :, :1], 1, [], 1, 0), expected)
    np.testing.assert_array_equal(split_part(X, 2, (), 3, 1), X[:, :, 2:4])


def test_batch_to_space_undoes_space_to_batch() -> None:
    parts = move_space_to_batch(X, (2, 3), [(1, 1), (0, 0)], 0)
    assert parts.shape == (12, 3, 2, 9)
    np.testing.assert_array_equal(move_batch_to_space(parts, (2, 3), [(1, 1), (0, 0)]), X)


def test_space_to_batch_puts_a_blocks_positions_into_the_batch() -> None:
    parts = move_space_to_batch(X, (2, 2), [(0, 0), (0, 0)], 0)
    np.testing.assert_array_equal(parts[2 * 2 : 2 * 3], X[:, 1::2, 0::2])


def test_reshape_keeps_a_zero_dimension_and_infers_minus_one() -> None:
    assert reshape(X, (0, -1, 9)).shape == (2, 24, 9)
    assert reshape(X[:0], (0, 3), allow_zero=True).shape == (0, 3)


@pytest.mark.parametrize(
    ("axis", "shape"), [(0, (1, 432)), (2, (8, 54)), (-1, (48, 9)), (4, (432, 1))]
)
def test_flatten_multiplies_the_sizes_before_and_after_the_axis(
    axis: int, shape: tuple[int, int]
) -> None:
    assert flatten(X, axis).shape == shape
