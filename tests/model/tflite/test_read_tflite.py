"""Reading of `.tflite` files: the graph of a file computes what the file was written from.

The oracle is the executor on the ONNX model, whose integers LiteRT computes too (tests/rewrite/tflite).
"""

from __future__ import annotations

import numpy as np
import pytest
from litert_cases import CASES, feeds_of, graph_of

import ptq
from ptq.core.errors import ModelError, UnsupportedError
from ptq.executor.arithmetics import get_arithmetic
from ptq.executor.executor import Executor
from ptq.executor.tflite_export import encode_tflite
from ptq.model.open import open_model

pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")

from ptq.model.tflite.schema import load_schema


@pytest.mark.parametrize("case", CASES)
def test_a_file_is_read_as_the_integers_that_it_was_written_from(case: str) -> None:
    graph = graph_of(case)
    feed = feeds_of(graph, 2)
    ours = Executor(graph, "litert").run(feed)
    read = Executor(open_model(encode_tflite(graph).content), "litert").run(feed)
    for name, array in ours.items():
        np.testing.assert_array_equal(read[name], array)


@pytest.mark.parametrize("io", ["float", "int8", "float16"])
def test_a_file_is_verified_in_litert(io: str, tmp_path) -> None:
    graph = graph_of("Conv, padding of its own")
    converted = ptq.convert(graph, "tflite", io=io)
    converted.save(tmp_path / "m.tflite")
    feed = [feeds_of(graph, 1)]
    for arithmetic, tensors in (("litert", True), ("litert-xnnpack", False)):
        result = ptq.verify(tmp_path / "m.tflite", feed, arithmetic=arithmetic)
        assert (
            result.equal or io == "int8"
        )  # an input of int8 is quantized before LiteRT, ties to even
        assert result.runtime.startswith("LiteRT 2")
        assert (len(result.tensors) > 2) is tensors


def test_the_first_tensor_that_differs_is_named(monkeypatch) -> None:
    kernels = get_arithmetic("litert").kernels
    right = kernels["Gemm"]

    def wrong(site):
        kernel = right(site)
        return lambda inputs: kernel(inputs) ^ np.int8(1)

    monkeypatch.setitem(kernels, "Gemm", wrong)
    graph = graph_of("Gemm")
    result = ptq.verify(encode_tflite(graph).content, [feeds_of(graph, 4)])
    assert not result.passed
    assert result.first is not None
    assert (result.first.op, result.first.differing) == ("Gemm", result.first.elements)
    assert result.first.largest == 1


def test_a_file_is_linted_without_errors(tmp_path) -> None:
    for case in ("Conv", "Gemm", "Softmax", "Concat"):
        findings = ptq.lint(encode_tflite(graph_of(case)).content)
        assert [f for f in findings if f.severity == "error"] == []


def test_a_file_is_evaluated_in_litert(tmp_path) -> None:
    graph = graph_of("Gemm")
    path = tmp_path / "m.tflite"
    path.write_bytes(encode_tflite(graph).content)
    samples = [{name: array[:1] for name, array in feeds_of(graph, 9).items()}]
    result = ptq.evaluate(path, samples * 4, against=graph)
    [fidelity] = result.forms["int8"].outputs.values()
    assert fidelity.agreement == 1.0


def test_a_file_becomes_an_onnx_model(tmp_path) -> None:
    graph = graph_of("Conv")
    path = tmp_path / "m.tflite"
    path.write_bytes(encode_tflite(graph).content)
    ptq.convert(path, "qdq").save(tmp_path / "m.onnx")
    feed = feeds_of(graph, 2)
    [ours], [read] = (
        Executor(open_model(m), "litert").run(feed).values() for m in (graph, tmp_path / "m.onnx")
    )
    np.testing.assert_array_equal(read, ours)


def test_a_missing_file_is_refused(tmp_path) -> None:
    with pytest.raises(ModelError, match="cannot be read"):
        open_model(tmp_path / "none.tflite")


def test_a_file_that_is_no_tflite_file_is_refused(tmp_path) -> None:
    (tmp_path / "m.tflite").write_bytes(b"onnx")
    with pytest.raises(ModelError, match=r"no \.tflite file"):
        open_model(tmp_path / "m.tflite")


def test_an_operator_that_is_not_read_is_named(monkeypatch) -> None:
    monkeypatch.setattr("ptq.model.tflite.read.ROWS", {})
    with pytest.raises(UnsupportedError, match="operator QUANTIZE"):
        open_model(encode_tflite(graph_of("Gemm")).content)


def test_the_schema_has_every_builtin_that_is_read() -> None:
    from ptq.model.tflite.operators import ROWS

    assert {*ROWS} <= {*vars(load_schema().BuiltinOperator)}
