"""A `.tflite` file that is read as an ONNX model loads and runs in ONNX Runtime, with all of its optimizations."""

from __future__ import annotations

import numpy as np
import pytest
from litert_cases import CASES, feeds_of, graph_of
from networks import build_network, gaussian_array
from onnx import TensorProto
from qdq_builder import QdqBuilder

import ptq
from ptq.executor.tflite_export import encode_tflite
from ptq.model.graph import Graph
from ptq.model.node import get_name
from ptq.model.open import open_model
from ptq.model.session.session import Session

pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")

from ptq.model.tflite.interpreter import LitertModel


@pytest.mark.parametrize("case", CASES)
def test_every_operator_runs_in_onnxruntime(case: str) -> None:
    graph = graph_of(case)
    content = encode_tflite(graph).content
    feed = feeds_of(graph, 2)
    _compare(content, feed)


def _compare(content: bytes, feed: dict[str, np.ndarray], share: float = 0.1) -> None:
    read = open_model(content)
    ours = dict(zip(map(get_name, read.outputs), Session(read).run(feed), strict=True))
    for name, array in LitertModel(content, kernels="reference").run(feed).items():
        assert ours[name].shape == array.shape
        assert ours[name].dtype == array.dtype
        # the runtimes round otherwise: some steps of a part of the elements
        apart = np.abs(ours[name].astype(float) - array) > share * np.abs(array).max()
        assert apart.mean() <= 0.05


def test_a_dilated_window_of_padding_same_has_explicit_pads() -> None:
    graph = Graph.from_proto(
        build_network(
            "y = Conv<dilations = [2, 3], pads = [2, 3, 2, 3]>(x, w)",
            {"x": (1, 2, 6, 7)},
            w=gaussian_array(4, 2, 3, 3, seed=1),
        )
    )
    feed = {"x": gaussian_array(1, 2, 6, 7, seed=2)}
    _compare(encode_tflite(graph).content, feed, share=1e-5)


def test_a_resize_beside_transposes_keeps_its_sizes() -> None:
    b = QdqBuilder()
    w, v, pads = b.weight(8, 6, 3, 3), b.weight(2, 8, 3, 3), [1, 1, 1, 1]
    x = b.requantize(b.node("Transpose", b.input(["N", 9, 8, 6]), perm=[0, 3, 1, 2]), 0.05, -3)
    one = b.requantize(b.node("Conv", x, w, b.bias(0.05, w, 8), pads=pads), 0.4, 3)
    factors = b.constant(np.array([1, 1, 2, 2], np.float32))
    large = b.requantize(b.node("Resize", one, "", factors, mode="linear"), 0.4, 3)
    y = b.requantize(b.node("Conv", large, v, b.bias(0.4, v, 2), pads=pads), 4.0, 0)
    b.output(b.requantize(b.node("Transpose", y, perm=[0, 2, 3, 1]), 4.0, 0))
    graph = b.to_graph()
    content = encode_tflite(graph).content
    assert ptq.convert(content, "qdq").load_failure == ""
    for batch in (1, 3):
        _compare(content, feeds_of(graph, batch))


def test_ids_of_32_bits_are_one_type_with_constants() -> None:
    graph = Graph.from_proto(
        build_network(
            "next = Add(ids, one)\nvectors = Gather(table, next)",
            {"ids": ("n", 3)},
            ("vectors", "next"),
            types={"ids": TensorProto.INT32, "next": TensorProto.INT32},
            one=np.array(1, np.int32),
            table=gaussian_array(9, 4, seed=1),
        )
    )
    feed = {"ids": np.array([[0, 4, 7], [2, 2, 1]], np.int32)}
    _compare(encode_tflite(graph).content, feed, share=1e-6)


def test_a_conversion_that_onnxruntime_does_not_load_says_so(monkeypatch) -> None:
    graph = graph_of("Gemm")
    assert ptq.convert(encode_tflite(graph).content, "qdq").load_failure == ""
    monkeypatch.setattr("ptq.api.convert.convert_graph", lambda graph, *_, **__: _broken())
    failure = ptq.convert(encode_tflite(graph).content, "qdq").load_failure
    assert failure.startswith("ONNX Runtime cannot load the model: ")


def _broken() -> Graph:
    """An Add of operands of two types."""
    return Graph.from_proto(build_network("y = Add(x, k)", {"x": (1, 2)}, k=np.array(1)))
