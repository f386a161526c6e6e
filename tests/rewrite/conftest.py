from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import ptq
from ptq.model.graph import Graph
from ptq.model.node import get_operator
from ptq.rewrite.prepare.prepare import PREPARE


def parsed_model(text, opset=17, **constants):
    """The Graph of a model in ONNX's textual form, with its initializers by name."""
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {text}')
    for name, array in constants.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
    return Graph.from_proto(proto)


def run_in_ort(graph, feeds, level="ORT_DISABLE_ALL"):
    """The outputs by name, as ONNX Runtime computes them."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    session = onnxruntime.InferenceSession(
        graph.to_bytes(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def assert_same_function(before, after, feeds, tolerance=1e-5):
    """Both graphs give the same outputs in ONNX Runtime, up to rounding."""
    expected, got = run_in_ort(before, feeds), run_in_ort(after, feeds)
    assert list(expected) == list(got)
    for name, array in expected.items():
        assert array.shape == got[name].shape
        assert array.dtype == got[name].dtype
        error = np.abs(array.astype(np.float64) - got[name]).max(initial=0)
        assert error <= tolerance * max(np.abs(array).max(initial=0), 1e-3), name


@pytest.fixture
def parsed():
    return parsed_model


@pytest.fixture
def same_function():
    return assert_same_function


@pytest.fixture
def operators():
    return lambda graph: Counter(get_operator(node) for node in graph.nodes)


@pytest.fixture
def rng():
    return np.random.default_rng(1)


@pytest.fixture
def applies_without(monkeypatch):
    """Asserts that a plan or statistics made without a rewrite give the same model with it."""

    def check(rewrite, model, samples, of):
        options = {"force": True, "target": "litert", "equalize": False, "split_outliers": False}
        with monkeypatch.context() as before:
            rest = tuple(other for other in PREPARE if other is not rewrite)
            before.setattr("ptq.rewrite.prepare.prepare.PREPARE", rest)
            old = ptq.quantize(model, samples, **options)
        made = {"plan": old.plan} if of == "plan" else {"stats": old.calibration}
        again = ptq.quantize(model, samples, **made, **options)
        assert again.graph.digest() == old.graph.digest()
        assert again.plan.graph == old.plan.graph
        assert ptq.quantize(model, samples, **options).plan.graph != old.plan.graph

    return check
