"""Dense layers of more than two axes on targets that fuse around products; the oracle is the form with Reshapes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from networks import build_network, gaussian_array

import ptq
from ptq.model.graph import Graph
from ptq.model.node import get_operator
from ptq.model.session.session import Session
from ptq.rewrite.emit.dense_as_matmul import write_dense_as_matmul

LAYERS = """
m = MatMul(x, w1)
a = Add(m, b1)
g = Gelu(a)
n = MatMul(g, w2)
b = Add(n, b2)
k = MatMul(x, w3)
c = Add(k, b2)
y = Add(b, c)
"""
WEIGHTS = {
    "w1": gaussian_array(24, 24, scale=0.2),
    "b1": gaussian_array(24, seed=1),
    "w2": gaussian_array(24, 24, seed=2, scale=0.2),
    "b2": gaussian_array(24, seed=3),
    "w3": gaussian_array(24, 24, seed=5, scale=0.2),
}
X = gaussian_array(64, 12, 24, seed=4)


def quantize(shape: Any, target: str = "openvino", text: str = LAYERS) -> ptq.Result:
    model = build_network(text, {"x": shape}, opset=20, **WEIGHTS)
    return ptq.quantize(model, {"x": X}, target=target, effort="fast", force=True)


def operators(result: ptq.Result) -> Counter[str]:
    return Counter(map(get_operator, result.graph.nodes))


@pytest.mark.parametrize("shape", [(1, 12, 24), ("N", 12, 24), ("N", "T", 24)])
def test_dense_layers_have_no_reshape_around_them(shape: Any) -> None:
    found = operators(quantize(shape))
    assert found["MatMul"] == 3
    assert found["Gemm"] == found["Reshape"] == 0
    assert found["QuantizeLinear"] == 2  # two layers read one tensor


@pytest.mark.parametrize("target", ["openvino", "portable"])
def test_the_integers_and_the_outputs_are_those_of_the_form_with_reshapes(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = quantize(("N", 12, 24), target)
    monkeypatch.setattr("ptq.rewrite.emit.to_qdq.write_dense_as_matmul", lambda graph: None)
    with_reshapes = quantize(("N", 12, 24), target)
    assert operators(with_reshapes)["Reshape"] > 0
    assert without.plan.tensors == with_reshapes.plan.tensors
    ours, theirs = (Session(r.graph).run({"x": X})[0] for r in (without, with_reshapes))
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_a_gemm_whose_reshape_changes_the_axes_stays() -> None:
    text = """
s = Constant<value_ints = [-1, 24]>()
t = Constant<value_ints = [-1, 6, 2, 24]>()
f = Reshape(x, s)
g = Gemm(f, w1, b1)
y = Reshape(g, t)
"""
    found = operators(quantize(("N", 12, 24), text=text))
    assert (found["Gemm"], found["MatMul"], found["Reshape"]) == (1, 0, 2)


def test_openvino_takes_activation_and_quantizer_into_the_product() -> None:
    openvino = pytest.importorskip("openvino", reason="the extra openvino is not installed")
    core = openvino.Core()
    model = core.read_model(quantize((1, 12, 24)).graph.to_bytes())
    compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    types = [
        info["outputPrecisions"].astype(str)
        for op in compiled.get_runtime_model().get_ops()
        if (info := op.get_rt_info())["layerType"].astype(str) == "FullyConnected"
    ]
    assert Counter(types) == {"u8": 1, "f32": 2}


def test_a_gemm_whose_reshape_regroups_the_last_axis_stays() -> None:
    """A dense layer for each head: (N, 12, 24) is read as rows of 12, and written as (N, 12, 48)."""
    text = """
s = Constant<value_ints = [-1, 12]>()
t = Constant<value_ints = [-1, 12, 48]>()
f = Reshape(x, s)
g = Gemm(f, h, b1)
y = Reshape(g, t)
"""
    weights = {"h": gaussian_array(12, 24, scale=0.2), "b1": WEIGHTS["b1"]}
    model = build_network(text, {"x": ("N", 12, 24)}, opset=20, **weights)
    result = ptq.quantize(model, {"x": X}, target="openvino", effort="fast", force=True)
    assert operators(result)["Gemm"] == 1
    assert operators(result)["QuantizeLinear"] >= 1


ROWS = """
f = Reshape(x, flat)
p = Gather<axis = 1>(f, few)
r = Mul(f, mask)
q = QuantizeLinear(r, s, z)
d = DequantizeLinear(q, s, z)
g = Gemm(d, w1, b1)
t = Gemm(p, w4, g)
y = Reshape(t, back)
"""
ROW_WEIGHTS = {
    **WEIGHTS,
    "w4": gaussian_array(2, 24, seed=6),
    "few": np.array([3, 20]),
    "mask": np.where(np.isin(np.arange(24), [3, 20]), 0, 1).astype(np.float32),
    "s": np.array(0.05, np.float32),
    "z": np.array(128, np.uint8),
    "flat": np.array([-1, 24]),
    "back": np.array([-1, 12, 24]),
}


def rewrite(text: str) -> tuple[Graph, Graph]:
    """The graph before and after."""
    model = build_network(text, {"x": ("N", 12, 24)}, opset=20, **ROW_WEIGHTS)
    before, after = (Graph.from_proto(model).with_shapes() for _ in range(2))
    write_dense_as_matmul(after)
    return before, after


def test_products_of_a_few_channels_in_float_lose_their_reshapes_too() -> None:
    before, after = rewrite(ROWS)
    after.remove_unused()
    found = Counter(map(get_operator, after.nodes))
    assert (found["MatMul"], found["Gemm"], found["Reshape"]) == (2, 0, 0)
    ours, theirs = (Session(graph).run({"x": X})[0] for graph in (after, before))
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("r = Mul(f, mask)", "o = Softmax<axis = 0>(f)\nr = Mul(f, o)"),
        ("t = Gemm(p, w4, g)", "n = ReduceMax(p)\nt = Add(g, n)"),
        ("g = Gemm(d, w1, b1)", "g = Gemm<alpha = 2.0>(d, w1, b1)"),
        ("r = Mul(f, mask)", "v = Transpose(f)\nu = MatMul(v, f)\nr = MatMul(f, u)"),
    ],
    ids=["a function over rows", "a sum", "a factor", "a product of rows"],
)
def test_rows_stay_where_anything_else_reads_them(old: str, new: str) -> None:
    before, after = rewrite(ROWS.replace(old, new))
    assert list(map(get_operator, after.nodes)) == list(map(get_operator, before.nodes))
