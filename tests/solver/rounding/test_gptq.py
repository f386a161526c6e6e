"""Oracle: the float model in ONNX Runtime on fresh samples, and models compared byte by byte."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ptq
from ptq.calibration import covariance_job
from ptq.core.plan import Plan
from ptq.core.types import INT8, QuantParams
from ptq.model.graph import Graph
from ptq.model.node import get_constant, get_operator
from ptq.model.session.session import Session
from ptq.observers.covariance import Covariance
from ptq.observers.input_statistics import CovarianceBlock, InputStatistics
from ptq.rewrite.emit.vnni_saturation import find_saturable_nodes
from ptq.solver.rounding.gptq import GptqRounder


def network(seed: int = 0) -> onnx.ModelProto:
    """A convolution whose channels go together, a depthwise one, a grouped one and matrices."""
    rng = np.random.default_rng(seed)
    weights = {
        "w1": rng.normal(size=(16, 3, 3, 3)) * 0.2,
        "w2": rng.normal(size=(16, 1, 3, 3)) * 0.3,
        "w3": rng.normal(size=(16, 8, 1, 1)) * 0.3,
        "w4": rng.normal(size=(16, 24)) * 0.3,
        "w5": rng.normal(size=(10, 24)) * 0.2,
        "b5": rng.normal(size=10),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c1"], name="full", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"], name="r1"),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], name="depthwise", group=16),
        helper.make_node("Relu", ["c2"], ["r2"], name="r2"),
        helper.make_node("Conv", ["r2", "w3"], ["c3"], name="grouped", group=2),
        helper.make_node("GlobalAveragePool", ["c3"], ["p"], name="p"),
        helper.make_node("Flatten", ["p"], ["f"], name="f"),
        helper.make_node("MatMul", ["f", "w4"], ["m"], name="matrix"),
        helper.make_node("Relu", ["m"], ["r4"], name="r4"),
        helper.make_node("Gemm", ["r4", "w5", "b5"], ["y"], name="layer", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 12, 12])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 10])],
        [numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def images(seed: int, count: int = 80) -> np.ndarray:
    rng = np.random.default_rng(seed)
    smooth = rng.normal(0.7, 0.5, (count, 1, 12, 12)) + rng.normal(0, 0.1, (count, 3, 12, 12))
    return np.abs(smooth).astype(np.float32)


def quantized(**options: Any) -> ptq.Result:
    return ptq.quantize(network(), {"x": images(1)}, threads=1, **options)


@pytest.fixture(scope="module")
def rounded() -> ptq.Result:
    return quantized()


@pytest.fixture(scope="module")
def nearest() -> ptq.Result:
    return quantized(rounding="nearest")


def noise(result: ptq.Result) -> float:
    fresh = {"x": images(2)}
    truth = Session(Graph.from_proto(network())).run(fresh)[0]
    return float(np.square(Session(result.graph).run(fresh)[0] - truth).mean())


def weights(graph: Graph) -> dict[str, np.ndarray]:
    found = {}
    for node in graph.nodes:
        source = node.inputs[1].producer() if len(node.inputs) > 1 and node.inputs[1] else None
        if source is not None and get_operator(source) == "DequantizeLinear":
            array = get_constant(source.inputs[0])
            if array is not None and node.name is not None:
                found[node.name] = array
    return found


NODES = {"full", "depthwise", "grouped", "matrix", "layer"}


def test_outputs_come_closer_to_float(rounded: ptq.Result, nearest: ptq.Result) -> None:
    assert noise(rounded) < 0.9 * noise(nearest)


def test_every_weight_is_rounded_and_the_plan_and_report_say_so(rounded: ptq.Result) -> None:
    result = rounded
    assert result.plan.rounding is not None
    assert len(result.plan.rounding) == len(NODES)
    assert all(text.startswith("second-order") for text in result.plan.rounding.values())
    rows = {row.name: row.why for row in result.report.nodes}
    assert all("second-order" in rows[name] for name in result.plan.rounding)
    assert any(
        "weight rounding: second-order (GPTQ) in 5 layers" in change
        for change in result.report.changes
    )
    assert ptq.Plan.from_json(result.plan.to_json()).rounding == result.plan.rounding


def test_scales_stay_and_integers_move_by_few_steps(
    rounded: ptq.Result, nearest: ptq.Result
) -> None:
    assert replace(rounded.plan, rounding={}).to_json() == nearest.plan.to_json()
    mine, theirs = weights(rounded.graph), weights(nearest.graph)
    assert mine.keys() == theirs.keys()
    mine.pop("layer")  # the last one makes up for the others
    moved = [np.abs(mine[n].astype(int) - theirs[n].astype(int)) for n in mine]
    assert 0 < max(m.max() for m in moved) < 20


def test_the_same_bytes_from_any_batching_and_thread_count(
    rounded: ptq.Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(covariance_job, "BATCH", 3)
    monkeypatch.setenv("PTQ_THREADS", "1")
    assert quantized().graph.to_bytes() == rounded.graph.to_bytes()


@pytest.mark.usefixtures("native_sums")
def test_the_same_bytes_from_another_process_with_one_blas_thread() -> None:
    script = (
        "import importlib.util, hashlib\n"
        f"spec = importlib.util.spec_from_file_location('t', {__file__!r})\n"
        "t = importlib.util.module_from_spec(spec); spec.loader.exec_module(t)\n"
        "print(hashlib.sha256(t.quantized(weights='reduced').graph.to_bytes()).hexdigest())\n"
    )
    own = hashlib.sha256(quantized(weights="reduced").graph.to_bytes()).hexdigest()
    found = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for threads in ("1", "4")
    ]
    assert found == [own, own]


def test_a_plan_with_the_same_samples_gives_the_same_model(rounded: ptq.Result) -> None:
    first = rounded
    plan = ptq.Plan.from_json(first.plan.to_json())
    again = quantized(plan=plan)
    assert again.graph.digest() == first.graph.digest()


def test_a_node_taken_out_of_the_plan_is_rounded_to_the_nearest(
    rounded: ptq.Result, nearest: ptq.Result
) -> None:
    first = rounded
    assert first.plan.rounding is not None
    fewer = {name: how for name, how in first.plan.rounding.items() if name != "full"}
    again = weights(quantized(plan=replace(first.plan, rounding=fewer)).graph)
    np.testing.assert_array_equal(again["full"], weights(nearest.graph)["full"])
    np.testing.assert_array_equal(again["grouped"], weights(first.graph)["grouped"])


def test_without_samples_weights_are_rounded_to_the_nearest_and_the_report_says_so(
    rounded: ptq.Result, nearest: ptq.Result
) -> None:
    first = rounded
    again = ptq.quantize(network(), stats=first.calibration, plan=first.plan, threads=1)
    mine, theirs = weights(again.graph), weights(nearest.graph)
    assert all(np.array_equal(mine[name], theirs[name]) for name in mine)
    assert any("needs calibration samples" in change for change in again.report.changes)
    assert not again.plan.rounding


@pytest.mark.parametrize("longest", [27, 9, 4])
def test_long_sums_are_cut_into_whole_channels(
    longest: int, nearest: ptq.Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(covariance_job, "_MAX_BLOCK", longest)
    result = quantized()
    assert result.plan.rounding is not None
    assert len(result.plan.rounding) == (5 if longest >= 9 else 3)
    assert noise(result) < noise(nearest)


def test_covariances_keep_within_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(covariance_job, "_MEMORY_LIMIT", 1)
    monkeypatch.setattr(covariance_job, "_MIN_BLOCK", 9)
    result = quantized()
    assert result.plan.rounding is not None
    assert len(result.plan.rounding) == 5


@pytest.mark.parametrize(
    "options", [{"per_tensor": True}, {"target": "litert"}, {"correct_bias": False}]
)
def test_it_pays_with_other_settings_too(options: dict[str, Any]) -> None:
    assert noise(quantized(**options)) < noise(quantized(rounding="nearest", **options))


def layer(inputs: int, outputs: int = 48) -> onnx.ModelProto:
    weight = np.random.default_rng(3).normal(size=(inputs, outputs)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="matrix")],
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", inputs])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", outputs])],
        [numpy_helper.from_array(weight, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("shared", [0.0, 1.0])
def test_few_samples_of_many_inputs_do_no_harm(shared: float) -> None:
    rng = np.random.default_rng(4)
    mixing = np.eye(384) + shared * rng.normal(size=(384, 384)) / np.sqrt(384)
    seen, fresh = ((rng.normal(size=(n, 384)) @ mixing).astype(np.float32) for n in (60, 400))
    truth, errors = Session(Graph.from_proto(layer(384))).run({"x": fresh})[0], []
    for rounding in ("second-order", "nearest"):
        result = ptq.quantize(
            layer(384), {"x": seen}, method="minmax", rounding=rounding, threads=1
        )
        errors.append(np.square(Session(result.graph).run({"x": fresh})[0] - truth).mean())
    assert errors[0] < 1.05 * errors[1]


def chosen(learnt: np.ndarray, held: np.ndarray | None) -> tuple[ptq.Plan, GptqRounder, Graph]:
    graph = Graph.from_proto(layer(2))
    covariances = Covariance(1, 2), Covariance(1, 2)
    for covariance, rows in zip(covariances, (learnt, held), strict=True):
        if rows is not None:
            covariance.update(rows.T[None].astype(np.int16))
    params = QuantParams(np.float32(0.5), np.int64(0), INT8, None)
    plan = Plan(graph.digest(), "ort", {}, {("matrix", 1): params}, {}, {}, {}, {})
    return (
        plan,
        GptqRounder(InputStatistics({"matrix": [CovarianceBlock(slice(0, 2), *covariances)]})),
        graph,
    )


TOGETHER = np.array([[9, 9], [-9, -9]] * 20)


def test_second_order_rounding_that_loses_on_held_out_inputs_is_not_used() -> None:
    plan, second, graph = chosen(TOGETHER, TOGETHER * (1, -1))
    choice = second.choose_roundings(graph, plan, corrected=False)["matrix"]
    assert choice.weight is None
    assert str(choice).startswith("nearest, as second order loses")
    assert choice.gptq_db < choice.nearest_db


def test_the_damping_of_long_sums_is_fixed_on_request() -> None:
    plan, second, graph = chosen(TOGETHER, TOGETHER * (1, -1))
    statistics = InputStatistics({name: second._blocks[name] for name in second.node_names})
    for most, validated in ((1, False), (2, True)):
        rounder = GptqRounder(statistics, most).updated_with(InputStatistics())
        choice = rounder.choose_roundings(graph, plan, corrected=False)["matrix"]
        assert choice.on_held_out is validated
        assert validated or choice.damping == 0.3


def test_inputs_of_zeros_have_a_finite_signal_over_error() -> None:
    plan, second, graph = chosen(0 * TOGETHER, 0 * TOGETHER)
    choice = second.choose_roundings(graph, plan, corrected=False)["matrix"]
    assert (choice.nearest_db, choice.gptq_db, choice.gain_db) == (100, 100, 0)


@pytest.mark.parametrize("held", [TOGETHER, None])
def test_second_order_rounding_is_kept_where_it_gains_on_held_out_inputs_or_there_are_none(
    held: np.ndarray | None,
) -> None:
    plan, second, graph = chosen(TOGETHER, held)
    choice = second.choose_roundings(graph, plan, corrected=False)["matrix"]
    weight = get_constant(graph.nodes[0].inputs[1])
    assert choice.weight is not None
    assert weight is not None
    # the error of the sum of both inputs, in steps of 0.5: one can take back the other's
    error, plain = (
        np.abs((w - weight).sum(axis=0)) for w in (choice.weight, np.rint(weight * 2) / 2)
    )
    assert error.max() < 0.3
    assert plain.max() > 0.35
    assert choice.gain_db > 1


def test_rounding_for_openvino_lets_no_two_channels_of_a_position_saturate() -> None:
    made = quantized(weights="reduced", target="portable")
    assert "full" in (made.plan.rounding or ())  # three channels
    assert find_saturable_nodes(made.graph, pairs_channels=True) == ()


def test_reduced_weights_have_no_neighbours_that_saturate_and_lose_little() -> None:
    plain, reduced = quantized(weights="s8"), quantized(weights="reduced")
    assert len(find_saturable_nodes(plain.graph)) >= 3
    assert find_saturable_nodes(reduced.graph) == ()
    assert set(reduced.plan.rounding or ()) == {"full", "depthwise", "grouped", "matrix", "layer"}
    x = {"x": images(2)}
    real = Session(Graph.from_proto(network()), threads=1).run(x)[0]
    errors = [
        float(np.square(Session(made.graph, threads=1).run(x)[0] - real).sum())
        for made in (plain, reduced)
    ]
    assert errors[1] < 2 * errors[0]
