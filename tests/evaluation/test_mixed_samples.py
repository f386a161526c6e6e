"""Nodes that work along the batch: samples are then run one by one. What ONNX Runtime gives is the oracle."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from networks import build_network, gaussian_array

from ptq.core.run_options import DEFAULT_RUN
from ptq.evaluation.batching import choose_batch
from ptq.model.graph import Graph

CONSTANTS = {
    "wx": gaussian_array(1, 12, 6, seed=1),
    "wr": gaussian_array(1, 12, 4, seed=2),
    "square": gaussian_array(6, 6, seed=3),
    "scale": np.ones(6, np.float32),
    "shift": np.zeros(6, np.float32),
    "all": np.array([-1, 30]),
    "rows": np.array([-1, 5, 6]),
    "zero": np.array(0),
    "one": np.array(1),
    "first": np.array([0]),
    "more": np.array([1]),
}
MIXED = {
    "the largest of all": "a = Abs(x); m = ReduceMax<keepdims = 0>(a); y = Div(x, m)",
    "the mean of samples": "m = ReduceMean<axes = [0]>(x); y = Sub(x, m)",
    "softmax over samples": "y = Softmax<axis = 0>(x)",
    "sums along samples": "y = CumSum(x, zero)",
    "the first sample": "f = Gather<axis = 0>(x, zero); y = Sub(x, f)",
    "the first samples": "f = Slice(x, first, more, first); y = Sub(x, f)",
    "the normalization of all samples": "y = MeanVarianceNormalization<axes = [0, 1]>(x)",
    "samples as steps of a recurrence": "h, l = GRU<hidden_size = 4>(x, wx, wr); y = Squeeze(h, more)",
    "each sample with each": (
        "r = Reshape(x, all); t = Transpose<perm = [1, 0]>(r); p = MatMul(r, t); "
        "q = MatMul(p, r); y = Reshape(q, rows)"
    ),
    "a sum that is equal for all": 'e = Einsum<equation = "nij->ij">(x); y = Add(x, e)',
    "a scale of all values": "q, s, z = DynamicQuantizeLinear(x); y = DequantizeLinear(q, s, z)",
}
APART = {
    "a softmax of features": "y = Softmax<axis = -1>(x)",
    "sums along steps": "y = CumSum(x, one)",
    "the mean of steps": "m = ReduceMean<axes = [1]>(x); y = Sub(x, m)",
    "the largest of each": "m = ReduceMax<axes = [1, 2], keepdims = 1>(x); y = Div(x, m)",
    "layer normalization": "y = LayerNormalization<axis = -1>(x, scale, shift)",
    "a recurrence along steps": (
        "t = Transpose<perm = [1, 0, 2]>(x); h, l = GRU<hidden_size = 4>(t, wx, wr); "
        "s = Squeeze(h, more); y = Transpose<perm = [1, 0, 2]>(s)"
    ),
    "attention": (
        "k = Transpose<perm = [0, 2, 1]>(x); p = MatMul(x, k); s = Softmax(p); y = MatMul(s, x)"
    ),
    "dense layers of rows": "m = MatMul(x, square); r = Reshape(m, all); y = Reshape(r, rows)",
    "a product of features": 'y = Einsum<equation = "nij,jk->nik">(x, square)',
}


def load(text: str) -> Graph:
    constants = {name: array for name, array in CONSTANTS.items() if name in text}
    lines = text.replace("; ", "\n")
    return Graph.from_proto(build_network(lines, {"x": ("n", 5, 6)}, **constants))


def differs_in_a_batch(graph: Graph) -> bool:
    session = onnxruntime.InferenceSession(graph.to_bytes())
    x = gaussian_array(4, 5, 6, seed=9)
    [together] = session.run(None, {"x": x})
    alone = np.concatenate([session.run(None, {"x": row[None]})[0] for row in x])
    return bool(np.abs(together - alone).max() > 1e-4)


@pytest.mark.parametrize("text", MIXED.values(), ids=MIXED)
def test_samples_that_a_node_mixes_run_one_by_one(text: str) -> None:
    graph = load(text)
    assert differs_in_a_batch(graph)
    assert choose_batch(DEFAULT_RUN, graph) == 1


@pytest.mark.parametrize("text", APART.values(), ids=APART)
def test_samples_that_no_node_mixes_run_at_once(text: str) -> None:
    graph = load(text)
    assert not differs_in_a_batch(graph)
    assert choose_batch(DEFAULT_RUN, graph) == DEFAULT_RUN.evaluation_batch


def test_a_softmax_before_opset_13_reads_all_axes_behind_its_own() -> None:
    for axis, batch in ((0, 1), (1, DEFAULT_RUN.evaluation_batch)):
        model = build_network(f"y = Softmax<axis = {axis}>(x)", {"x": ("n", 5, 6)}, opset=11)
        graph = Graph.from_proto(model)
        assert differs_in_a_batch(graph) == (batch == 1)
        assert choose_batch(DEFAULT_RUN, graph) == batch
