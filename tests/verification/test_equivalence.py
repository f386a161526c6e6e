"""Proofs of equality: models tampered with on purpose, and both forms of one model, are the oracle."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from cases import CASES, case_with_integers
from foreign_models import INPUT_QDQ, OUTPUT_QDQ, foreign_graph, random_integers
from onnx import numpy_helper

from ptq.model.graph import Graph
from ptq.verification.equivalence import find_first_difference


@pytest.mark.parametrize("name", CASES)
def test_both_forms_of_a_model_are_the_same_function(name: str) -> None:
    done = case_with_integers(name)
    assert find_first_difference(done.qdq, done.qlinear) is None
    assert find_first_difference(done.qlinear, done.qdq) is None


def test_a_relu_is_the_clip_of_integers_that_stands_for_it() -> None:
    relu = foreign_graph(
        INPUT_QDQ + "r = Relu(xd)" + OUTPUT_QDQ, y_scale=np.float32(0.03), y_zero=np.uint8(120)
    )
    clip = foreign_graph(
        INPUT_QDQ + "yq = Clip(xq, x_zero)\ny = DequantizeLinear(yq, x_scale, x_zero)",
        outputs={"y": onnx.TensorProto.FLOAT},
    )
    assert find_first_difference(relu, clip) is None


def test_the_outputs_of_a_split_differ() -> None:
    same = {"y_scale": np.float32(0.03), "y_zero": np.uint8(120)}
    first, second = (
        foreign_graph(
            INPUT_QDQ + f"{outputs} = Split<axis=2>(xd, sizes)" + OUTPUT_QDQ, sizes=[4, 4], **same
        )
        for outputs in ("r, s", "s, r")
    )
    assert find_first_difference(first, first) is None
    assert find_first_difference(first, second) == "y"


def _tampered(graph: Graph, change: Callable[[onnx.ModelProto], None]) -> Graph:
    proto = graph.to_proto()
    change(proto)
    return Graph.from_proto(proto)


def _constant(
    name: str, change: Callable[[np.ndarray], np.ndarray]
) -> Callable[[onnx.ModelProto], None]:
    def apply(proto: onnx.ModelProto) -> None:
        (tensor,) = [t for t in proto.graph.initializer if t.name == name]
        array = numpy_helper.to_array(tensor)
        changed = change(array.copy()).astype(array.dtype)
        tensor.CopyFrom(numpy_helper.from_array(changed, name))

    return apply


def _one_more(w: np.ndarray) -> np.ndarray:
    w.reshape(-1)[5] += 1 if w.reshape(-1)[5] < 100 else -1
    return w


def _strides(proto: onnx.ModelProto) -> None:
    (conv,) = [node for node in proto.graph.node if node.op_type == "Conv"]
    conv.attribute.append(onnx.helper.make_attribute("dilations", [2, 2]))


@pytest.mark.parametrize(
    "change",
    [
        _constant("w", _one_more),
        _constant("w_scale", lambda s: np.nextafter(s, np.float32(1))),
        _constant("y_zero", lambda z: z + 1),
        _constant("x_scale", lambda s: s * 2),
        _strides,
    ],
    ids=["a weight", "a weight's scale", "a zero point", "a scale", "an attribute"],
)
def test_any_change_is_seen(change: Callable[[onnx.ModelProto], None]) -> None:
    graph = foreign_graph(
        INPUT_QDQ + "wd = DequantizeLinear(w, w_scale, w_zero)\nr = Conv(xd, wd)" + OUTPUT_QDQ,
        w=random_integers(8, 3, 3, 3),
    )
    assert find_first_difference(graph, _tampered(graph, lambda proto: None)) is None
    assert find_first_difference(graph, _tampered(graph, change)) == "y"


def test_a_change_in_float_between_integers_is_seen() -> None:
    graphs = [
        foreign_graph(
            INPUT_QDQ + f"e = Elu<alpha = {alpha}>(xd)\nr = CumSum(e, axis)" + OUTPUT_QDQ,
            axis=np.int64(1),
        )
        for alpha in (0.5, 0.5, 0.6)
    ]
    assert find_first_difference(graphs[0], graphs[1]) is None
    assert find_first_difference(graphs[0], graphs[2]) == "y"
