"""What ONNX Runtime's own ``quantize_static`` makes of a small residual network, in every form and opset."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import exact_sums
import numpy as np
import onnx
import pytest
from networks import build_network, gaussian_array, random_feeds, to_samples
from old_runtime import skip_before
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from ptq.core.run_options import RunOptions
from ptq.executor.executor import Executor
from ptq.model.graph import Graph
from ptq.model.session.session import Session
from ptq.verification.conversion import convert_graph
from ptq.verification.lint import lint_graph
from ptq.verification.node_status import list_node_statuses
from ptq.verification.verify import verify_graph

NODES = """
    c = Conv<pads = [1, 1, 1, 1]>(x, w1, b1)
    r = Relu(c)
    d = Conv<pads = [1, 1, 1, 1], group = 4>(r, w2)
    k = Clip(d, low, high)
    a = Add(r, k)
    l = LeakyRelu<alpha = 0.1>(a)
    m = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(l)
    n = Concat<axis = 1>(m, m)
    s = Sigmoid(n)
    t = Mul(n, s)
    h = HardSigmoid(t)
    g = GlobalAveragePool(h)
    f = Flatten(g)
    p = MatMul(f, w3)
    q = Add(p, b3)
    e = Gemm(q, w4, b4)
    y = Softmax(e)
"""
OPSETS = (13, 21, 26)


class _Reader(CalibrationDataReader):
    def __init__(self, these: list[dict[str, Any]]) -> None:
        self._rest = iter(these)

    def get_next(self) -> dict[str, Any] | None:
        return next(self._rest, None)


def _model(opset: int) -> onnx.ModelProto:
    return build_network(
        NODES,
        {"x": (1, 3, 8, 8)},
        opset=opset,
        w1=gaussian_array(4, 3, 3, 3),
        b1=gaussian_array(4),
        w2=gaussian_array(4, 1, 3, 3, seed=1),
        low=np.float32(0),
        high=np.float32(6),
        w3=gaussian_array(8, 8, seed=2),
        b3=gaussian_array(8, seed=3),
        w4=gaussian_array(8, 5, seed=4),
        b4=gaussian_array(5, seed=5),
    )


def _quantized(folder: Path, *, form: str, per_channel: bool, activation: str, opset: int) -> Graph:
    model = _model(opset)
    source, made = folder / "float.onnx", folder / "quantized.onnx"
    onnx.save(model, source)
    quantize_static(
        source,
        made,
        _Reader(random_feeds(model, 6)),
        quant_format=QuantFormat[form],
        per_channel=per_channel,
        activation_type=QuantType[activation],
        weight_type=QuantType.QInt8,
    )
    return Graph.load(made)


CASES = [
    *itertools.product(("QDQ", "QOperator"), (True, False), ("QUInt8", "QInt8"), (17,)),
    *itertools.product(("QDQ", "QOperator"), (True,), ("QUInt8",), OPSETS),
]


@pytest.mark.parametrize(("form", "per_channel", "activation", "opset"), CASES)
def test_every_integer_of_quantize_static_is_onnx_runtimes(
    tmp_path, form, per_channel, activation, opset
):
    if opset > 23:
        skip_before((1, 26), "does not load models of this opset")
    if form == "QOperator" and opset >= 21 and not exact_sums.EXACT_NATIVELY:
        pytest.skip("the option for exact sums does not reach QLinearMatMul of opset 21")
    graph = _quantized(
        tmp_path, form=form, per_channel=per_channel, activation=activation, opset=opset
    )
    found = verify_graph(
        graph, to_samples(random_feeds(_model(opset), 3, seed=9)), run=RunOptions(threads=1)
    )
    assert found.equal, found.first
    if activation == "QUInt8":
        assert {"Conv", "Add", "MatMul"} <= {tensor.op for tensor in found.tensors}


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
def test_its_models_can_be_converted_with_their_integers_unchanged(tmp_path, form):
    graph = _quantized(tmp_path, form=form, per_channel=True, activation="QUInt8", opset=17)
    other = convert_graph(graph, "qoperator" if form == "QDQ" else "qdq")
    feed = random_feeds(_model(17), 1, seed=9)[0]
    expected = Session(graph, threads=1).run(feed)[0]
    assert np.array_equal(Session(other, threads=1).run(feed)[0], expected)
    assert np.array_equal(Executor(other).run(feed)["y"], expected)


def test_what_it_leaves_float_is_named(tmp_path):
    graph = _quantized(tmp_path, form="QDQ", per_channel=True, activation="QUInt8", opset=17)
    floats = {fate.op: fate.why for fate in list_node_statuses(graph) if fate.runs == "float"}
    assert floats["HardSigmoid"] == (
        "must stay float: HardSigmoid has no integer kernel in this arithmetic"
    )
    assert "Conv" not in floats


def test_its_int8_models_break_only_the_rules_on_scales(tmp_path):
    graph = _quantized(tmp_path, form="QDQ", per_channel=True, activation="QInt8", opset=17)
    broken = {finding.rule for finding in lint_graph(graph) if finding.severity == "error"}
    assert broken <= {"fixed-output", "same-scale"}
    assert "fixed-output" in broken
