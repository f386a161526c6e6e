"""Oracle: float64 means of a layer's output, with real and with rounded weights and input."""

from __future__ import annotations

from unittest import mock

import numpy as np
import onnx
import pytest
from networks import build_network
from onnx import TensorProto, helper, numpy_helper

import ptq
from ptq.core.plan import Plan
from ptq.core.types import INT8, QuantParams
from ptq.model.graph import Graph
from ptq.model.node import get_constant, get_operator
from ptq.model.session.session import Session
from ptq.observers.input_means import InputMean
from ptq.rewrite.emit.bias_correction import correct_biases, list_channel_axes
from ptq.rewrite.prepare.add_zero_bias import add_zero_bias


def network(seed: int, *, transposed: bool = False) -> onnx.ModelProto:
    rng = np.random.default_rng(seed)
    weights = {
        "w1": rng.normal(size=(8, 3, 3, 3)) * 0.2,
        "w2": rng.normal(size=(8, 1, 3, 3)) * 0.3,
        "w3": rng.normal(size=(10, 8) if transposed else (8, 10)) * 0.3,
        "b3": rng.normal(size=10),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c1"], name="c1"),
        helper.make_node("Relu", ["c1"], ["r1"], name="r1"),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], name="c2", group=8),
        helper.make_node("GlobalAveragePool", ["c2"], ["p"], name="p"),
        helper.make_node("Flatten", ["p"], ["f"], name="f"),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["y"], name="g", transB=int(transposed)),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 12, 12])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 10])],
        [numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def images(seed: int, count: int = 60) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.abs(rng.normal(0.7, 0.5, (count, 3, 12, 12))).astype(np.float32)


@pytest.mark.parametrize("transposed", [False, True])
def test_the_mean_error_of_the_outputs_shrinks(transposed: bool) -> None:
    model, data, fresh = network(0, transposed=transposed), images(1), images(2)
    truth = Session(Graph.from_proto(model)).run({"x": fresh})[0]

    def mean_error(correct: bool) -> float:
        result = ptq.quantize(
            model, {"x": data}, correct_bias=correct, rounding="nearest", equalize=False
        )
        out = Session(result.graph).run({"x": fresh})[0]
        return float(np.abs((out - truth).mean(axis=0)).mean())

    assert mean_error(True) < 0.7 * mean_error(False)


def test_the_report_says_how_many_biases_were_corrected() -> None:
    report = ptq.quantize(network(0), {"x": images(1)}).report
    assert any("bias correction: 3 layers" in change for change in report.changes)


def test_nothing_is_corrected_without_means() -> None:
    first = ptq.quantize(network(0), {"x": images(1)}, correct_bias=False)
    assert not any("corrected" in change for change in first.report.changes)


def test_the_tensors_to_sum_are_the_inputs_of_weighted_nodes() -> None:
    assert list_channel_axes(Graph.from_proto(network(0))) == {"x": 1, "r1": 1, "f": 1}


def test_a_bias_of_zeros_is_given_to_nodes_without_one() -> None:
    graph = Graph.from_proto(network(0))
    add_zero_bias(graph)
    biases = [get_constant(n.inputs[2]) for n in graph.nodes if get_operator(n) in ("Conv", "Gemm")]
    assert [b is not None and b.shape for b in biases] == [(8,), (8,), (10,)]
    assert not np.any(biases[0])
    x = images(3, 2)
    before = Session(Graph.from_proto(network(0))).run({"x": x})[0]
    np.testing.assert_array_equal(Session(graph).run({"x": x})[0], before)


def test_a_channel_that_rounds_to_nothing_is_corrected_for_what_it_loses_itself() -> None:
    """Its depthwise weights are as large as it is small, so that one mean for the whole tensor would mislead."""
    model = network(0)
    w1, w2 = (numpy_helper.to_array(model.graph.initializer[k]).copy() for k in (0, 1))
    w1[3] *= 1e-3
    w2[3] *= 1e3
    for place, array in enumerate((w1, w2)):
        model.graph.initializer[place].CopyFrom(
            numpy_helper.from_array(array, model.graph.initializer[place].name)
        )
    data, fresh = images(1), images(2)
    truth = Session(Graph.from_proto(model)).run({"x": fresh})[0]

    def mean_error(correct: bool) -> float:
        result = ptq.quantize(
            model, {"x": data}, method="mse", correct_bias=correct, equalize=False
        )
        out = Session(result.graph).run({"x": fresh})[0]
        return float(np.abs((out - truth).mean(axis=0)).mean())

    with mock.patch(
        "ptq.api.quantize.compensate_rounding", lambda made, *_, **__: made
    ):  # weights would make up
        assert mean_error(True) < 0.3 * mean_error(False)


def test_a_bias_that_uses_of_one_weight_share_subtracts_the_mean_of_their_shifts() -> None:
    """Oracle: the two biases that the uses have if each has a bias of its own."""
    rng = np.random.default_rng(7)
    weights = {"w": rng.normal(size=(8, 8)) * 0.3, "b": rng.normal(size=8)}

    def corrected(second_bias: str) -> list[np.ndarray]:
        nodes = """
            [one] a = Gemm(x, w, b)
            r = Relu(a)
            [two] y = Gemm(r, w, %s)
        """
        arrays = {k: v.astype(np.float32) for k, v in weights.items()}
        if second_bias == "own":
            arrays["own"] = -arrays["b"]
        graph = Graph.from_proto(build_network(nodes % second_bias, {"x": ("n", 8)}, **arrays))
        params = {k: QuantParams(np.full(8, 0.05), np.zeros(8), INT8, 1) for k in ("one", "two")}
        plan = Plan("ort", "", operands={(name, 1): of for name, of in params.items()})
        means = {
            "x": InputMean(rng_of_means[0], rng_of_means[1]),
            "r": InputMean(rng_of_means[2], 0.1),
        }
        changed, count = correct_biases(graph, plan, means, None)
        assert count == 2
        found = {n.name: get_constant(n.inputs[2]) for n in changed.nodes if n.name in params}
        return [np.asarray(found[name], np.float64) for name in ("one", "two")]

    rng_of_means = rng.normal(size=(3, 8))
    bias = weights["b"].astype(np.float32).astype(np.float64)
    shared, own = corrected("b"), corrected("own")
    np.testing.assert_array_equal(shared[0], shared[1])
    mean_shift = ((bias - own[0]) + (-bias - own[1])) / 2
    np.testing.assert_allclose(shared[0], bias - mean_shift, rtol=1e-5, atol=1e-6)
    assert np.abs(own[0] - shared[0]).max() > 1e-3
