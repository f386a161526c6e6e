"""Samples run at once only where shapes show that outputs can be shared out among them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ptq import evaluate
from ptq.core.errors import DataError
from ptq.core.run_options import DEFAULT_RUN
from ptq.data import Sample
from ptq.evaluation.batching.batch_size import choose_batch
from ptq.evaluation.runs.run_forms import run_forms
from ptq.model.graph import Graph

STEPS, CLASSES = 8, 12
Dims = list[int | str | None]


def build(nodes: list[onnx.NodeProto], batch: int | str | None, output: Dims) -> onnx.ModelProto:
    """A model of time steps whose output is declared with these dimensions."""
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, STEPS, CLASSES])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, output)],
        [
            numpy_helper.from_array(np.array([-1, STEPS * CLASSES]), "rows"),
            numpy_helper.from_array(np.float32(0), "zero"),
        ],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def branch(op: str) -> onnx.GraphProto:
    """A branch that applies one operator to x."""
    result = helper.make_tensor_value_info(op, TensorProto.FLOAT, None)
    return helper.make_graph([helper.make_node(op, ["x"], [op])], op, [], [result])


RELU = [helper.make_node("Relu", ["x"], ["y"])]
STEPS_FIRST = [helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0, 2])]
FLAT = [helper.make_node("Reshape", ["x", "rows"], ["y"])]
POSITIVE = [  # as boxes after suppression: as many rows as values give
    helper.make_node("Greater", ["x", "zero"], ["g"]),
    helper.make_node("NonZero", ["g"], ["n"]),
    helper.make_node("Transpose", ["n"], ["t"]),
    helper.make_node("Cast", ["t"], ["y"], to=TensorProto.FLOAT),
]
PAIRS = [  # as the scores of images and texts: each sample with each
    helper.make_node("Reshape", ["x", "rows"], ["r"]),
    helper.make_node("Transpose", ["r"], ["t"], perm=[1, 0]),
    helper.make_node("MatMul", ["r", "t"], ["y"]),
]
NOT_INFERRED = [helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft")]
ALL_ROWS = [  # indices from lengths alone, and an operator without inference
    helper.make_node("Shape", ["x"], ["s"]),
    helper.make_node("ConstantOfShape", ["s"], ["c"]),
    helper.make_node("NonZero", ["c"], ["n"]),
    helper.make_node("Cast", ["n"], ["f"], to=TensorProto.FLOAT),
    helper.make_node("Gelu", ["f"], ["y"], domain="com.microsoft"),
]
DECIDED = [  # all samples decide together
    helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
    helper.make_node("Greater", ["s", "zero"], ["g"]),
    helper.make_node("If", ["g"], ["y"], then_branch=branch("Relu"), else_branch=branch("Neg")),
]


@pytest.mark.parametrize(
    ("nodes", "batch", "output", "apart"),
    [
        (RELU, "N", ["N", STEPS, CLASSES], True),
        (RELU, "N", ["unk__1", STEPS, CLASSES], True),
        (RELU, None, [None, None, None], True),
        (RELU, -1, [-1, STEPS, CLASSES], True),  # as Paddle writes it
        (RELU, 1, [1, STEPS, CLASSES], False),
        (FLAT, "N", ["unk__1", None], True),
        (STEPS_FIRST, "N", [STEPS, "N", CLASSES], False),
        (STEPS_FIRST, "N", ["T", "N", CLASSES], False),
        (POSITIVE, "N", ["M", 3], False),
        (POSITIVE, "N", ["N", 3], False),  # declared so by the user of an exporter
        (PAIRS, "N", ["N", "N"], False),
        (PAIRS, "N", ["N", "M"], False),
        (NOT_INFERRED, "N", ["N", STEPS, CLASSES], True),
        (NOT_INFERRED, "N", ["M", STEPS, CLASSES], False),
        (ALL_ROWS, "N", ["N", None], True),
        (DECIDED, "N", ["N", STEPS, CLASSES], False),
    ],
)
def test_samples_stay_apart_where_declared_or_inferred_shapes_say_so(
    nodes: list[onnx.NodeProto], batch: int | str | None, output: Dims, apart: bool
) -> None:
    graph = Graph.from_proto(build(nodes, batch, output))
    same = Graph.from_proto(build(RELU, "N", ["N", STEPS, CLASSES]))
    expected = DEFAULT_RUN.evaluation_batch if apart else 1
    assert choose_batch(DEFAULT_RUN, graph) == expected
    assert choose_batch(DEFAULT_RUN, same, graph) == expected


def test_as_many_steps_as_samples_of_a_batch_are_not_taken_for_samples() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(STEPS, STEPS, CLASSES)).astype(np.float32)
    scores[..., 0] += 2
    model = build(STEPS_FIRST, "N", [STEPS, "N", CLASSES])

    def right(outputs: Any, samples: Any) -> list[float]:
        pairs = zip(outputs, samples, strict=True)
        return [float((o["y"][:, 0] == s.feed["x"][0]).all()) for o, s in pairs]

    found = evaluate(model, {"x": scores}, metric=right, batch=STEPS)
    assert found.forms["float"].figures[0].value == 1


ONE_ROW = [  # as angles that an exporter computes for one row: shapes allow any batch, and the kernel one row
    helper.make_node("RotaryEmbedding", ["x", "cos", "sin"], ["y"], num_heads=2),
]


def build_rotation() -> onnx.ModelProto:
    angles = np.linspace(0, 1, STEPS * CLASSES // 4).reshape(1, STEPS, -1).astype(np.float32)
    model = build(ONE_ROW, "N", ["N", STEPS, CLASSES])
    model.graph.initializer.append(numpy_helper.from_array(np.cos(angles), "cos"))
    model.graph.initializer.append(numpy_helper.from_array(np.sin(angles), "sin"))
    model.opset_import[0].version, model.ir_version = 23, 11
    return model


def test_samples_run_alone_where_a_kernel_takes_no_batch() -> None:
    scores = np.random.default_rng(0).normal(size=(STEPS, STEPS, CLASSES)).astype(np.float32)
    found = evaluate(build_rotation(), {"x": scores}, task="none", batch=STEPS)
    assert found.samples == STEPS


def test_of_a_batch_the_sample_that_fails_is_named() -> None:
    def engine(feed: Any) -> list[Any]:
        if feed["x"].max() > 5:
            raise DataError("out of range")
        return [feed["x"]]

    samples = [Sample(f"sample {k}", {"x": np.full((1, 2), k, np.float32)}) for k in (1, 9)]
    with pytest.raises(DataError, match=r"^sample 9: out of range$"):
        list(run_forms({"float": engine}, samples, 8, {}, DEFAULT_RUN))
