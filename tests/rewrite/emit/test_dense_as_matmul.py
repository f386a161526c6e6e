"""Dense layers of more than two axes on target ``openvino``; the oracle is the same plan with Reshapes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from networks import build_network, gaussian_array

import ptq
from ptq.model.node import operator_of
from ptq.model.session import Session

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
    return Counter(map(operator_of, result.graph.nodes))


@pytest.mark.parametrize("shape", [(1, 12, 24), ("N", 12, 24), ("N", "T", 24)])
def test_dense_layers_have_no_reshape_around_them(shape: Any) -> None:
    found = operators(quantize(shape))
    assert found["MatMul"] == 3
    assert found["Gemm"] == found["Reshape"] == 0
    assert found["QuantizeLinear"] == 2  # two layers read one tensor


def test_the_integers_and_the_outputs_are_those_of_the_form_with_reshapes() -> None:
    without, with_reshapes = quantize(("N", 12, 24)), quantize(("N", 12, 24), "portable")
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
