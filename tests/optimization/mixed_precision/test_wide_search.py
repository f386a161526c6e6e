"""16 bits in place of float: nodes whose activations a budget needs more precise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from networks import build_network, gaussian_array

import ptq
from ptq.core.types import UINT8, UINT16
from ptq.evaluation.presentation.report_wording import describe_search
from ptq.executor.runtimes.registry import open_in_runtime
from ptq.model.node import get_operator

TEXT = """
a = Conv(x, u)
r = Relu(a)
b = Conv(r, w)
t = Tanh(b)
c = Conv(t, w)
y = Flatten(c)
"""


def _network() -> Any:
    """The convolution in the middle has a few outputs that are far larger than the rest."""
    wide = gaussian_array(8, 8, 1, 1, seed=1)
    wide[0] *= 200
    return build_network(
        TEXT, {"x": (1, 3, 6, 6)}, u=gaussian_array(8, 3, 1, 1), w=wide.astype(np.float32)
    )


@pytest.fixture(scope="module")
def found() -> ptq.Result:
    data = [{"x": gaussian_array(1, 3, 6, 6, seed=seed)} for seed in range(60)]
    return ptq.quantize(
        _network(), data, target="qnn", effort="fast", threads=1, max_drop=0.002,
        rounding="nearest",
    )  # fmt: skip


def test_nodes_get_16_bits_instead_of_float(found: ptq.Result) -> None:
    search = found.report.search
    assert search is not None
    assert search.wide
    assert search.floats
    assert not [name for name, why in found.plan.floats.items() if "budget" in why]
    types = {params.qtype for params in found.plan.tensors.values()}
    assert types == {UINT8, UINT16}
    assert search.drop.points < search.without.points


def test_the_plan_says_why_a_tensor_has_16_bits(found: ptq.Result) -> None:
    wide = [name for name, params in found.plan.tensors.items() if params.qtype == UINT16]
    assert all("16 bits: accuracy budget: " in str(found.plan.why[name]) for name in wide)
    assert found.report.search is not None
    lines = describe_search(found.report.search, found.report.nodes, None)
    assert "with activations of 16 bits" in next(lines)


def test_the_executor_computes_the_integers_of_the_model(found: ptq.Result) -> None:
    samples = [{"x": gaussian_array(1, 3, 6, 6, seed=seed)} for seed in range(90, 94)]
    checked = ptq.verify(found.model, samples, threads=1)
    assert checked.passed


def test_all_operators_of_the_model_keep_quantizers(found: ptq.Result) -> None:
    for node in found.graph.nodes:
        if get_operator(node) == "Conv":
            maker = node.inputs[0].producer() if node.inputs[0] is not None else None
            assert maker is not None
            assert get_operator(maker).endswith("DequantizeLinear")


def test_the_range_method_that_is_asked_for_sets_ranges_of_16_bits_too() -> None:
    data = [{"x": gaussian_array(1, 3, 6, 6, seed=seed)} for seed in range(60)]
    result = ptq.quantize(
        _network(), data, target="qnn", effort="fast", threads=1, max_drop=0.002,
        rounding="nearest", method="minmax",
    )  # fmt: skip
    wide = [n for n, params in result.plan.tensors.items() if params.qtype.bits == 16]
    details = [result.plan.why[name].detail for name in wide]
    assert details
    assert not [detail for detail in details if "mse" in detail]


def test_a_target_without_wide_activations_keeps_float_nodes() -> None:
    data = [{"x": gaussian_array(1, 3, 6, 6, seed=seed)} for seed in range(60)]
    result = ptq.quantize(
        _network(), data, target="ort-xnnpack", effort="fast", threads=1, max_drop=0.002,
        rounding="nearest",
    )  # fmt: skip
    assert result.report.search is not None
    assert not result.report.search.wide


def test_it_runs_in_the_emulator_with_every_node_on_the_device(found: ptq.Result) -> None:
    pytest.importorskip("onnxruntime_qnn")
    inside = open_in_runtime("qnn", found.graph, threads=1)
    feed = {"x": gaussian_array(1, 3, 6, 6, seed=99)}
    (outputs,) = inside.run(feed)
    assert np.isfinite(outputs).all()
    assert all(node.intended for node in inside.placement())


def test_a_model_that_has_16_bits_already_is_searched_too() -> None:
    """A normalization in several operators has them at once; opset 17 has no such quantizer of its own."""
    text = """
    a = Conv(x, u)
    m = ReduceMean<axes = [1], keepdims = 1>(a)
    d = Sub(a, m)
    q = Mul(d, d)
    v = ReduceMean<axes = [1], keepdims = 1>(q)
    e = Add(v, eps)
    s = Sqrt(e)
    n = Div(d, s)
    b = Conv(n, w)
    y = Flatten(b)
    """
    model = build_network(
        text, {"x": (1, 3, 6, 6)}, u=gaussian_array(8, 3, 1, 1), w=gaussian_array(8, 8, 1, 1),
        eps=np.float32(1e-3).reshape(1),
    )  # fmt: skip
    data = [{"x": gaussian_array(1, 3, 6, 6, seed=seed)} for seed in range(60)]
    result = ptq.quantize(model, data, target="qnn", effort="fast", threads=1, max_drop=0.0005)
    assert result.report.search is not None
    assert result.report.search.estimates
