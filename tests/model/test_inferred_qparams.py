"""Constant integers that no quantizer made; ONNX Runtime and the readers behind them are the oracles."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from foreign_models import OUTPUT_QDQ, foreign_graph, random_integers, random_samples

from ptq.core.run_options import RunOptions
from ptq.executor.executor import Executor
from ptq.model.qdq.inferred_qparams import infer_qparams
from ptq.model.session.session import Session
from ptq.verification.conversion import convert_graph
from ptq.verification.verify import verify_graph

TABLE = "t = Gather(w, x)\n"
READERS = {
    "a DequantizeLinear": "td = DequantizeLinear(t, w_scale, w_zero)\nr = Sigmoid(td)" + OUTPUT_QDQ,
    "a QLinear operator": "r = com.microsoft.QLinearSigmoid(t, w_scale, w_zero, y_scale, y_zero)\n"
    "y = DequantizeLinear(r, y_scale, y_zero)",
    "one behind a movement": "u = Transpose(t)\ntd = DequantizeLinear(u, w_scale, w_zero)\n"
    "r = Sigmoid(td)" + OUTPUT_QDQ,
}


def _embedding(reader: str):
    table = random_integers(40, 8)
    types = {"w": table, "w_zero": np.int8(-3), "y_zero": np.int8(-100)}
    return foreign_graph(TABLE + READERS[reader], (5,), input_type=onnx.TensorProto.INT64, **types)


def _ids():
    return [
        type(s)(s.name, {"x": np.abs(s.feed["x"]) % 40}, ())
        for s in random_samples((5,), dtype=np.int64)
    ]


@pytest.mark.parametrize("reader", READERS)
def test_an_embedding_table_means_what_reads_it_says(reader):
    graph = _embedding(reader)
    (table,) = [v for v in graph.nodes[0].inputs if v is not None and v.name == "w"]
    found = infer_qparams(table)
    assert found is not None
    assert (found.scale, found.zero_point) == (np.float32(0.01), -3)


@pytest.mark.parametrize("reader", READERS)
def test_its_rows_are_gathered_in_integers_and_are_onnx_runtimes(reader):
    graph = _embedding(reader)
    assert not Executor(graph).islands
    result = verify_graph(graph, _ids(), run=RunOptions(threads=1))
    assert result.equal, result.first
    assert "Gather" in {tensor.op for tensor in result.tensors}


def test_it_can_be_converted_and_back():
    graph = _embedding("a DequantizeLinear")
    for form in ("qoperator", "qdq", "qoperator"):
        graph = convert_graph(graph, form)
        feed = _ids()[0].feed
        expected = Session(_embedding("a DequantizeLinear"), threads=1).run(feed)[0]
        assert np.array_equal(Session(graph, threads=1).run(feed)[0], expected)


def test_integers_that_nobody_interprets_mean_nothing():
    graph = foreign_graph("y = Gather(w, x)", (5,), input_type=onnx.TensorProto.INT64,
                    outputs={"y": onnx.TensorProto.INT8}, w=random_integers(40, 8))  # fmt: skip
    assert infer_qparams(graph.nodes[0].inputs[0]) is None
