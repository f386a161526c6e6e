"""What `.tflite` files compute in float. The oracle is ONNX Runtime; the table of ``ptq ops`` is that of the writer."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

from ptq.core.ops import OPS
from ptq.executor.tflite_export import encode_tflite
from ptq.model.graph import Graph
from ptq.model.session import Session
from ptq.rewrite.tflite.rows import ROWS


def test_the_operator_table_names_what_a_file_computes_in_float() -> None:
    in_float = {op for op, row in ROWS.items() if op in OPS and row.integer is None}
    assert in_float == {op for op, spec in OPS.items() if spec.litert_in_float}


def assert_equals_onnx_runtime(text: str, x: np.ndarray, tolerance: float = 1e-6) -> None:
    pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")
    from ptq.model.tflite.interpreter import LitertModel

    graph = Graph.from_proto(onnx.parser.parse_model(text))
    [expected] = Session(graph).run({"x": x})
    [found] = LitertModel(encode_tflite(graph).content, kernels="reference").run({"x": x}).values()
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_softplus_of_large_values_is_finite() -> None:
    x = np.array([[-1e4, -100, -5, -0.1, 0, 0.1, 5, 80, 89, 1e4]], np.float32)
    text = """<ir_version: 9, opset_import: ["": 20]> g (float[N, 10] x) => (float[N, 10] y)
    { y = Softplus(x) }"""
    assert_equals_onnx_runtime(text, x)
