"""Selections, comparisons and Split, in every arithmetic. Oracles: numpy on integers, ONNX Runtime live."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from old_runtime import skip_before
from onnx import TensorProto, helper, numpy_helper
from sites import int8_params, run_node

from ptq.executor.arithmetics import ARITHMETICS
from ptq.executor.arithmetics.min_max import COMPARISONS
from ptq.executor.arithmetics.node_site import Site

RNG = np.random.default_rng(0)
X = RNG.integers(-128, 128, (3, 4, 5)).astype(np.int8)
Y = RNG.integers(-128, 128, (3, 4, 5)).astype(np.int8)
P = int8_params(0.05, -7)
EVERY = pytest.mark.parametrize("name", ARITHMETICS)


@EVERY
@pytest.mark.parametrize(("op", "choose"), [("Max", np.maximum), ("Min", np.minimum)])
def test_extremes_of_one_scale_are_those_of_the_integers(name: str, op: str, choose: Any) -> None:
    ours = run_node(name, op, [(X, P), (Y, P), (X[:1], P)], P)
    np.testing.assert_array_equal(ours, choose(choose(X, Y), X[:1]))


@EVERY
def test_where_of_one_scale_takes_integers_as_they_are(name: str) -> None:
    condition = X[:, :1] > 0
    ours = run_node(name, "Where", [(condition, None), (X, P), (Y, P)], P)
    np.testing.assert_array_equal(ours, np.where(condition, X, Y))


@EVERY
@pytest.mark.parametrize(("op", "reduce"), [("ReduceMax", np.max), ("ReduceMin", np.min)])
def test_extremes_along_axes_are_those_of_the_integers(name: str, op: str, reduce: Any) -> None:
    ours = run_node(name, op, [(X, P)], P, axes=[0, -1], keepdims=0)
    np.testing.assert_array_equal(ours, reduce(X, (0, 2)))
    twice = run_node(name, op, [(X, P)], P, axes=[0, -1, 2], keepdims=0)
    np.testing.assert_array_equal(twice, ours)
    np.testing.assert_array_equal(run_node(name, op, [(X, P)], P), reduce(X, keepdims=True))
    np.testing.assert_array_equal(run_node(name, op, [(X, P)], P, noop_with_empty_axes=1), X)
    none = (np.zeros(0, np.int64), None)
    np.testing.assert_array_equal(run_node(name, op, [(X, P), none], P, noop_with_empty_axes=1), X)


@EVERY
@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin"])
def test_the_extreme_of_nothing_is_onnx_runtime_s(name: str, op: str) -> None:
    skip_before((1, 27), "takes 0 for the extreme of nothing")
    nothing = np.zeros((2, 0, 3), np.int8)
    graph = helper.make_graph(
        [helper.make_node(op, ["x", "axes"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.INT8, [2, "n", 3])],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(np.array([1]), "axes")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    ours = run_node(name, op, [(nothing, P)], P, axes=[1])
    np.testing.assert_array_equal(ours, session.run(None, {"x": nothing})[0])


@EVERY
@pytest.mark.parametrize(("op", "best"), [("ArgMax", np.max), ("ArgMin", np.min)])
@pytest.mark.parametrize("last", [0, 1])
def test_the_position_of_an_extreme_is_the_first_or_the_last(
    name: str, op: str, best: Any, last: int
) -> None:
    tied = X // 64  # four values: many ties
    ours = run_node(name, op, [(tied, P)], None, axis=2, keepdims=0, select_last_index=last)  # type: ignore[arg-type]
    assert ours.dtype == np.int64
    for row, position in zip(tied.reshape(-1, 5), ours.reshape(-1), strict=True):
        places = np.flatnonzero(row == best(row))
        assert position == places[-1 if last else 0]


@EVERY
@pytest.mark.parametrize("split", [None, [1, 0, 3]])
def test_the_parts_of_a_split_are_the_whole(name: str, split: list[int] | None) -> None:
    attrs = {"axis": 1, "num_outputs": 3, **({} if split is None else {"split": split})}
    maker = ARITHMETICS[name]["Split"]
    parts = [
        maker(Site("Split", attrs, (P,), (P,), (None,), output_index=i))([X]) for i in range(3)
    ]
    assert [p.shape[1] for p in parts] == (split or [2, 2, 0])
    np.testing.assert_array_equal(np.concatenate(parts, 1), X)


@EVERY
def test_requantization_is_the_real_one_to_the_nearest(name: str) -> None:
    x, y = int8_params(0.05, -7), int8_params(0.08, 11)
    real = np.clip((X.astype(int) + 7) * 0.05 / 0.08 + 11, -128, 127)
    ours = run_node(name, "Requantize", [(X, x)], y)
    assert np.abs(ours - real).max() <= (2.5 if name == "tpu-mlir-8" else 1.01)


@pytest.mark.parametrize("op", ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
def test_comparisons_are_those_of_onnx_runtime_s_dequantized_values(op: str) -> None:
    a, b = (
        int8_params(0.05, -7),
        int8_params(0.025, 4),
    )  # scales of which one is twice the other meet
    graph = helper.make_graph(
        [helper.make_node(op, ["a", "b"], ["y"])],
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in "ab"],
        [helper.make_empty_tensor_value_info("y")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    every = np.arange(-128, 128, dtype=np.int8)
    left, right = every[:, None], every[None]
    (expected,) = session.run(None, {"a": a.dequantize(left), "b": b.dequantize(right)})
    ours = run_node("ort", op, [(left, a), (right, b)], None)  # type: ignore[arg-type]
    np.testing.assert_array_equal(ours, expected)
    assert 0 < np.count_nonzero(ours) < ours.size


@pytest.mark.parametrize("op", COMPARISONS)
def test_aligned_tensors_compare_as_their_real_values_where_scales_are_exact(op: str) -> None:
    a, b = int8_params(0.5, -7), int8_params(0.25, 4)
    left, right = X, Y
    ours = run_node("fixed-point", op, [(left, a), (right, b)], None)  # type: ignore[arg-type]
    expected = COMPARISONS[op](a.dequantize(left), b.dequantize(right))
    np.testing.assert_array_equal(ours, expected)


@EVERY
@pytest.mark.parametrize(
    ("op", "made"),
    [("Softmax", int8_params(1 / 256, -128)), ("LogSoftmax", int8_params(1 / 16, 127))],
)
def test_a_softmax_of_nothing_is_nothing(name: str, op: str, made: Any) -> None:
    nothing = np.zeros((2, 0), np.int8)
    if op in ARITHMETICS[name]:
        assert run_node(name, op, [(nothing, P)], made, axis=1).shape == nothing.shape
