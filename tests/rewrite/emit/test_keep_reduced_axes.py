"""ReduceMax and ReduceMin for OpenVINO; the oracle is ONNX Runtime with the graph as it was."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from networks import build_network, gaussian_array, quantize_network

from ptq.model.graph import Graph
from ptq.model.node import get_operator
from ptq.model.session.session import Session
from ptq.rewrite.emit.keep_reduced_axes import keep_reduced_axes

X = gaussian_array(2, 6, 5, 4)
TEXT = """
a = ReduceMax<axes=[2, 3], keepdims=0>(x)
b = ReduceMin<axes=[-1], keepdims=0>(x)
c = ReduceMax<axes=[1]>(x)
d = ReduceMean<axes=[3], keepdims=0>(x)
e = ReduceMax<keepdims=0>(x)
"""
NEWER = """
a = ReduceMax<keepdims=0>(x, k)
b = ReduceMin<keepdims=0>(x, k)
"""


@pytest.mark.parametrize(
    ("text", "opset", "squeezed"), [(TEXT, 11, 2), (TEXT, 13, 2), (NEWER, 18, 2)]
)
def test_reductions_of_some_axes_keep_them_and_nothing_else_changes(
    text: str, opset: int, squeezed: int
) -> None:
    axes = {"k": np.array([1, 3])} if opset == 18 else {}
    outputs = [line[0] for line in text.split("\n") if line]
    model = build_network(text, {"x": X.shape}, outputs, opset=opset, **axes)
    plain = Graph.from_proto(model)
    kept = plain.copy()
    keep_reduced_axes(kept)
    assert Counter(map(get_operator, kept.nodes))["Squeeze"] == squeezed
    for one, other in zip(plain.outputs, kept.outputs, strict=True):
        assert (one.name, one.shape) == (other.name, other.shape)
    expected, found = (Session(graph, threads=1).run({"x": X}) for graph in (plain, kept))
    assert all(map(np.array_equal, expected, found))


@pytest.mark.parametrize(("target", "count"), [("openvino", 1), ("portable", 1), ("ort", 0)])
def test_files_that_openvino_may_read_keep_reduced_axes(target: str, count: int) -> None:
    model = build_network(
        "m = ReduceMax<axes=[2], keepdims=0>(x)\ny = Gemm(m, w)",
        {"x": (1, 64, 24)},
        w=gaussian_array(64, 128),
    )
    assert (
        Counter(map(get_operator, quantize_network(model, target=target).qdq.nodes))["Squeeze"]
        == count
    )
