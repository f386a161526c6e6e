"""Oracle: the float model in ONNX Runtime on fresh samples, and models compared byte by byte."""

from __future__ import annotations

import itertools
from typing import Any
from unittest import mock

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import ptq
from ptq.model.graph import Graph
from ptq.model.session.session import Session

SIZES = (16, 48, 48, 10)
NOTE = "re-fitted to quantized inputs"


def network() -> onnx.ModelProto:
    """Three fully connected layers."""
    rng, nodes, weights, value = np.random.default_rng(0), [], [], "x"
    for i, (inputs, outputs) in enumerate(itertools.pairwise(SIZES)):
        matrix = rng.normal(size=(inputs, outputs)) * np.sqrt(2 / inputs)
        arrays = {f"w{i}": matrix, f"b{i}": 0.1 * rng.normal(size=outputs)}
        weights += [numpy_helper.from_array(a.astype(np.float32), n) for n, a in arrays.items()]
        name = "y" if i == len(SIZES) - 2 else f"h{i}"
        nodes.append(helper.make_node("Gemm", [value, *arrays], [name], name=f"layer{i}"))
        if name != "y":
            value = f"r{i}"
            nodes.append(helper.make_node("Relu", [name], [value], name=f"relu{i}"))
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", SIZES[0]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", SIZES[-1]])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def samples(count: int, seed: int) -> NDArray[Any]:
    """Much like six patterns, so that a rounding error comes again and again."""
    patterns = np.random.default_rng(5).normal(size=(6, SIZES[0]))
    rng = np.random.default_rng(seed)
    drawn = patterns[rng.integers(0, 6, count)] + 0.003 * rng.normal(size=(count, SIZES[0]))
    return drawn.astype(np.float32)


def quantized(**options: Any) -> ptq.Result:
    calibration, evaluation = ([{"x": x[None]} for x in samples(*a)] for a in ((256, 1), (8, 2)))
    return ptq.quantize(
        network(), lambda: calibration, eval_data=lambda: evaluation, threads=1, **options
    )


@pytest.fixture(scope="module")
def compensated() -> ptq.Result:
    """The network with the default options."""
    return quantized()


def error(result: ptq.Result) -> float:
    fresh = samples(300, 3)
    made, real = (
        Session(graph, threads=1).run({"x": fresh})[0]
        for graph in (result.graph, Graph.from_proto(network()))
    )
    return float(np.square(made - real).sum() / np.square(real).sum())


def plainly(made: Any, *_: Any, **__: Any) -> Any:
    return made


def test_fresh_samples_lose_less_with_a_last_layer_that_makes_up(compensated):
    with mock.patch("ptq.api.quantize.compensate_rounding", plainly):
        without = quantized()
    assert any(NOTE in change for change in compensated.report.changes)
    assert not any(NOTE in change for change in without.report.changes)
    assert error(compensated) < 0.95 * error(without)


def test_the_same_bytes_come_out_again_and_from_the_plan(compensated):
    assert compensated.model.SerializeToString() == quantized().model.SerializeToString()
    assert compensated.graph.digest() == quantized(plan=compensated.plan).graph.digest()


@pytest.mark.parametrize("options", [{"rounding": "nearest"}, {"samples": 24}])
def test_layers_stay_without_covariances_or_held_out_samples(options):
    assert not any(NOTE in change for change in quantized(**options).report.changes)


def test_both_forms_have_the_same_integers(compensated):
    qoperator = quantized(form="qoperator")
    assert error(compensated) == pytest.approx(error(qoperator), rel=1e-6)
    assert any(NOTE in change for change in qoperator.report.changes)


def test_inputs_whose_shape_depends_on_values_are_compared_where_it_is_the_same() -> None:
    """Rows are kept by a bound that rounding crosses, and on some samples none is."""
    rng = np.random.default_rng(0)
    arrays = {
        "w0": 0.3 * rng.normal(size=(16, 32)),
        "b0": np.zeros(32),
        "w1": 0.3 * rng.normal(size=(32, 8)),
        "b1": np.zeros(8),
        "bound": np.array(2.6),
    }
    weights = [numpy_helper.from_array(a.astype(np.float32), n) for n, a in arrays.items()]
    weights.append(numpy_helper.from_array(np.array([1], np.int64), "axis"))
    nodes = [
        helper.make_node("Gemm", ["x", "w0", "b0"], ["h"], name="first"),
        helper.make_node("Relu", ["h"], ["r"], name="relu"),
        helper.make_node("ReduceMax", ["r", "axis"], ["m"], name="max", keepdims=0),
        helper.make_node("Greater", ["m", "bound"], ["c"], name="greater"),
        helper.make_node("Compress", ["r", "c"], ["k"], name="kept", axis=0),
        helper.make_node("Gemm", ["k", "w1", "b1"], ["y"], name="last"),
    ]
    graph = helper.make_graph(
        nodes,
        "kept",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["kept", 8])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    feeds = [{"x": x} for x in rng.normal(size=(256, 4, 16)).astype(np.float32)]
    session = Session(Graph.from_proto(model), threads=1)
    assert {len(session.run(feed)[0]) for feed in feeds} == {0, 1, 2, 3, 4}
    result = ptq.quantize(model, lambda: feeds, threads=1)
    assert "int8" in {row.fate for row in result.report.nodes if row.name == "last"}
