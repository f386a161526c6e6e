"""Types behind operators that ONNX does not define. Oracle: what ONNX Runtime returns."""

from __future__ import annotations

import onnx
import pytest
from networks import build_network, gaussian_array, quantize_network

from ptq.model.graph import Graph
from ptq.model.node import get_name
from ptq.model.session import runtime_types
from ptq.model.session.runtime_types import add_runtime_types, explain_unknown_type
from ptq.rewrite.imported.normalize_qdq import normalize_qdq

WEIGHTS = {
    "g": gaussian_array(16),
    "w": gaussian_array(16, 16, seed=1, scale=0.3),
    "v": gaussian_array(16, 16, seed=2, scale=0.3),
    "b": gaussian_array(16, seed=3),
}
TEXT = (
    "a = MatMul(x, w)\nn = com.microsoft.SkipLayerNormalization(a, x, g)\nc = MatMul(n, v)\n"
    "y = com.microsoft.BiasGelu(c, b)"
)


def _build(text: str = TEXT, domain: str = "com.microsoft", version: int = 1) -> onnx.ModelProto:
    return build_network(text, {"x": ("batch", 4, 16)}, domains={domain: version}, **WEIGHTS)


def _read(model: onnx.ModelProto) -> Graph:
    return Graph.from_proto(model).with_shapes()


def test_types_and_open_axes_behind_a_foreign_operator_are_those_of_onnx_runtime() -> None:
    graph = _read(_build())
    values = {get_name(v): v for node in graph.nodes for v in node.outputs}
    assert values["c"].type is None  # ONNX's own inference stops
    add_runtime_types(graph)
    assert {name: str(v.shape) for name, v in values.items()} == dict.fromkeys(
        "ancy", "[batch,4,16]"
    )
    assert {str(v.dtype) for v in values.values()} == {"FLOAT"}


def test_products_behind_a_foreign_operator_become_integers() -> None:
    done = quantize_network(_build(), target="qnn")
    assert {"a", "n", "c"} <= done.plan.tensors.keys()
    assert {"com.microsoft::SkipLayerNormalization"} == {
        reason.split()[1] for reason in done.plan.floats.values() if "Skip" in reason
    }


def test_an_operator_whose_rank_nobody_knows_still_has_a_type() -> None:
    text = 'n = ai.onnx.ml.Normalizer<norm = "MAX">(x)\na = MatMul(n, w)\ny = Relu(a)'
    graph = _read(_build(text, "ai.onnx.ml", 3))
    add_runtime_types(graph)
    found = [v for node in graph.nodes for v in node.outputs]
    assert {str(v.dtype) for v in found} == {"FLOAT"}
    assert {v.shape for v in found[:2]} == {None}


def test_a_quantized_file_without_types_is_read() -> None:
    proto = quantize_network(_build(), target="qnn").qdq.to_proto()
    del proto.graph.value_info[:]
    read = normalize_qdq(Graph.from_proto(proto))
    assert all(v.type is not None for node in read.nodes for v in node.outputs)


def test_a_model_with_types_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_types, "Session", None)
    add_runtime_types(_read(build_network("y = Relu(x)")))


def test_an_operator_that_nobody_knows_is_named() -> None:
    graph = _read(_build("a = somebody.Thing(x)\nr = Relu(a)\ny = MatMul(r, w)", "somebody"))
    add_runtime_types(graph)
    product = graph.nodes[-1].inputs[0]
    assert product is not None
    assert product.type is None
    said = explain_unknown_type(product)
    assert said == f"the type that somebody::Thing ({graph.nodes[0].name}) returns is unknown"
