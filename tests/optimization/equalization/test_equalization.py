"""Oracle: the float model in ONNX Runtime on samples that nothing was decided on, and the graph's digest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ptq
from ptq.core.errors import PlanError
from ptq.core.plan import Plan
from ptq.executor.executor import Executor
from ptq.model.graph import Graph
from ptq.model.session.session import Session
from ptq.optimization.equalization.candidates import CandidateComparison
from ptq.rewrite.prepare.prepare import prepare

CHANNELS = 16


def hard(second: str = "Relu", first: str = "Relu", channels: int = CHANNELS) -> onnx.ModelProto:
    """A depthwise network whose channels are up to a hundred times as large as others, each read back as much."""
    rng = np.random.default_rng(5)
    scale = 10 ** np.linspace(-1, 1, channels)[rng.permutation(channels)]
    weights = {
        "w1": rng.normal(size=(channels, 3, 1, 1)) * 0.5 * scale[:, None, None, None],
        "b1": rng.normal(size=channels) * 0.2 * scale,
        "w2": rng.normal(size=(channels, 1, 3, 3)) * 0.3 / scale[:, None, None, None],
        "b2": rng.normal(size=channels) * 0.2,
        "w3": rng.normal(size=(10, channels)) * 0.3,
        "b3": rng.normal(size=10),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], name="first"),
        helper.make_node(first, ["c1"], ["r1"], name="r1"),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"], name="second", group=channels),
        helper.make_node(second, ["c2"], ["r2"], name="r2"),
        helper.make_node("GlobalAveragePool", ["r2"], ["p"], name="p"),
        helper.make_node("Flatten", ["p"], ["f"], name="f"),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["y"], name="third", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "hard",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 10])],
        [numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def data(seed: int, count: int = 60) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    return [{"x": rng.normal(size=(1, 3, 8, 8)).astype(np.float32)} for _ in range(count)]


def decibels(model: onnx.ModelProto, quantized: Graph) -> float:
    fresh = data(99, 20)
    truth, got = (
        np.concatenate([session.run(feed)[0] for feed in fresh])
        for session in (Session(Graph.from_proto(model)), Session(quantized))
    )
    return float(10 * np.log10(np.square(truth).sum() / np.square(truth - got).sum()))


def quantize(model: onnx.ModelProto, **options: object) -> ptq.Result:
    return ptq.quantize(model, lambda: iter(data(1)), eval_data=lambda: iter(data(2, 4)), **options)


@pytest.mark.parametrize("target", ["ort", "litert", "gemmlowp"])
def test_channels_that_differ_a_hundred_times_survive_one_scale_for_the_weight(target):
    model = hard()
    options = {} if target == "gemmlowp" else {"per_tensor": True}
    with_it = quantize(model, target=target, **options)
    without = quantize(model, target=target, equalize=False, **options)
    assert decibels(model, with_it.graph) > 30
    assert decibels(model, with_it.graph) > decibels(model, without.graph) + 6
    [note] = [c for c in with_it.report.changes if "equalization" in c]
    assert note.startswith("equalization: scaled channels between 2 pairs of layers; SQNR ")
    assert with_it.plan.graph != without.plan.graph
    assert without.plan.graph == prepare(Graph.from_proto(model)).graph.digest()


def test_equalized_channels_lose_less_with_one_scale_for_each_tensor():
    model = hard()
    with_it, without = quantize(model), quantize(model, equalize=False)
    assert decibels(model, with_it.graph) > decibels(model, without.graph) + 3
    [note] = [c for c in with_it.report.changes if "equalization" in c]
    assert note.startswith("equalization: scaled channels of 2 layers (largest: c1, factors differ")
    assert note.endswith(" dB on 60 samples, cross-validated")
    assert with_it.plan.channel_factors
    assert not without.plan.channel_factors
    assert without.plan.graph == prepare(Graph.from_proto(model)).graph.digest()


def curved() -> onnx.ModelProto:
    return hard("HardSwish", "HardSwish", 64)


def test_channels_are_equalized_through_hard_swishes():
    model = curved()
    with_it, without = quantize(model), quantize(model, equalize=False)
    assert decibels(model, with_it.graph) > decibels(model, without.graph) + 3
    [note] = [c for c in with_it.report.changes if "equalization" in c]
    assert note.startswith("equalization: scaled channels of 1 layer (largest: c1, factors differ")
    assert Executor(with_it.graph).islands == {}
    assert ptq.verify(with_it.graph, lambda: iter(data(2, 4))).equal


@pytest.mark.parametrize(
    "options", [{"target": "litert"}, {"skip": ["HardSwish"]}, {"skip": ["r1", "r2"]}]
)
def test_no_factor_passes_a_hard_swish_where_that_would_cost_time(options):
    result = quantize(curved(), **options)
    assert "c1" not in result.plan.channel_factors
    assert "HardSwish" in {node.op_type for node in result.graph.nodes}


ISLAND = ["r1", "second", "r2"]


def test_quantizers_beside_float_layers_have_scales_a_channel_where_that_gains():
    model = hard("HardSwish", "HardSwish")
    with_it, without = (quantize(model, skip=ISLAND, equalize=on) for on in (True, False))
    assert decibels(model, with_it.graph) > decibels(model, without.graph) + 3
    assert with_it.plan.boundaries.keys() <= {"c1", "r2"}
    assert with_it.plan.boundaries["c1"] == ("first",)
    [note] = [c for c in with_it.report.changes if "equalization" in c]
    assert "largest: c1, factors differ by " in note
    added = with_it.plan.floats.keys() - without.plan.floats.keys()
    assert len(added) == len(with_it.plan.boundaries)
    assert "Mul" not in {node.op_type for node in with_it.graph.nodes}
    assert ptq.verify(with_it.graph, lambda: iter(data(2, 4))).equal


def heads() -> onnx.ModelProto:
    """A detector's last layers: boxes and logits in the channels of one output."""
    rng = np.random.default_rng(5)
    scale = np.repeat([8.0, 0.5, 0.25], [4, 4, 8])[:, None, None, None]
    weights = {
        "w1": rng.normal(size=(CHANNELS, 3, 3, 3)) * 0.2,
        "w2": rng.normal(size=(CHANNELS, CHANNELS, 1, 1)) * 0.2 * scale,
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c1"], name="first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"], name="r1"),
        helper.make_node("Conv", ["r1", "w2"], ["boxes"], name="second"),
    ]
    graph = helper.make_graph(
        nodes,
        "heads",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])],
        [helper.make_tensor_value_info("boxes", TensorProto.FLOAT, ["n", CHANNELS, 8, 8])],
        [numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_channels_of_an_output_have_scales_of_their_own(form):
    model = heads()
    with_it, without = (quantize(model, form=form, equalize=on) for on in (True, False))
    assert with_it.plan.boundaries == {"boxes": ("second",)}
    assert [value.name for value in with_it.graph.outputs] == ["boxes"]
    assert "order matters in a graph output" in str(with_it.plan.why["boxes_scaled"])
    assert not without.plan.floats
    graphs = (Graph.from_proto(model), with_it.graph, without.graph)
    sessions = [Session(graph) for graph in graphs]
    logits = [
        np.concatenate([session.run(feed)[0][:, 8:] for feed in data(99, 20)])
        for session in sessions
    ]
    errors = [np.square(logits[0] - other).sum() for other in logits[1:]]
    assert errors[0] < errors[1] / 10
    assert ptq.verify(with_it.graph, lambda: iter(data(2, 4))).equal


@pytest.mark.parametrize("options", [{"target": "gemmlowp"}, {"per_tensor": True}])
def test_other_targets_and_single_scales_a_weight_have_none(options):
    assert not quantize(hard("HardSwish"), skip=ISLAND, **options).plan.boundaries


def test_statistics_and_a_plan_of_scales_a_channel_serve_again():
    model = hard("HardSwish", "HardSwish")
    first = quantize(model, skip=ISLAND)
    again = quantize(model, skip=ISLAND, stats=first.calibration)
    assert again.graph.digest() == first.graph.digest()
    planned = quantize(model, plan=Plan.from_json(first.plan.to_json()))
    assert planned.graph.digest() == first.graph.digest()


def test_sensitivity_and_a_budget_know_scales_a_channel():
    model = hard("HardSwish", "HardSwish")
    ranking = ptq.sensitivity(model, lambda: iter(data(1)), skip=ISLAND, measure=1)
    assert ranking.sqnr_db > 25
    assert not any("Mul" in cost.node for cost in ranking.nodes)
    found = quantize(model, skip=ISLAND, max_drop=50.0)
    assert found.report.budget is not None
    assert found.plan.boundaries


@pytest.mark.parametrize("model", [hard(), curved()], ids=["rectifiers", "hard swishes"])
def test_a_plan_alone_holds_the_factors_too(model):
    first = quantize(model, rounding="nearest", correct_bias=False)
    plan = Plan.from_json(first.plan.to_json())
    again = ptq.quantize(model, plan=plan, correct_bias=False)
    assert again.graph.digest() == first.graph.digest()


def test_factors_that_do_not_fit_the_model_are_refused():
    model = hard()
    plan = quantize(model).plan
    wrong = replace(plan, channel_factors={"c1": (1.0, 2.0)})
    with pytest.raises(PlanError, match="2 channels of c1"):
        ptq.quantize(model, plan=wrong)
    other = replace(plan, channel_factors={"c1": (2.0,) * CHANNELS})
    with pytest.raises(PlanError, match="belongs to another model"):
        ptq.quantize(model, plan=other)


@pytest.mark.parametrize("options", [{}, {"per_tensor": True}])
def test_what_gains_nothing_is_left_out_and_said(options, monkeypatch):
    monkeypatch.setattr(CandidateComparison, "_errors", lambda *_: np.full(16, 0.001))
    model = hard()
    result = quantize(model, **options)
    assert result.plan.graph == prepare(Graph.from_proto(model)).graph.digest()
    assert any(c.startswith("equalization: not applied") for c in result.report.changes)


def test_a_plan_of_the_equalized_model_is_applied_on_the_same_samples():
    model = hard()
    first = quantize(model, per_tensor=True, rounding="nearest")
    again = quantize(model, plan=first.plan, rounding="nearest")
    assert again.graph.digest() == first.graph.digest()


@pytest.mark.parametrize("options", [{}, {"per_tensor": True}])
def test_statistics_of_the_equalized_model_serve_again_with_the_same_samples(options):
    model = hard()
    first = quantize(model, **options)
    again = quantize(model, **options, stats=first.calibration)
    assert again.graph.digest() == first.graph.digest()


def test_statistics_serve_out_of_a_file_too(tmp_path):
    model = hard()
    first = quantize(model, per_tensor=True)
    first.calibration.save(tmp_path / "model.stats")
    again = quantize(model, per_tensor=True, stats=tmp_path / "model.stats")
    assert again.graph.digest() == first.graph.digest()


@pytest.mark.parametrize("options", [{}, {"per_tensor": True}])
def test_statistics_of_the_plain_model_keep_it_plain_and_the_report_says_so(options):
    model = hard()
    plain = ptq.calibrate(model, lambda: iter(data(1)))
    result = quantize(model, **options, stats=plain)
    assert result.plan.graph == plain.graph
    note = "equalization: not applied (the given statistics belong to the model without it)"
    assert note in result.report.changes


def test_sensitivity_ranks_what_quantize_makes_of_the_model():
    model = hard()
    ranking = ptq.sensitivity(model, lambda: iter(data(1)), per_tensor=True, measure=0)
    assert ranking.sqnr_db > 30


def test_a_few_samples_leave_channels_as_they_are_and_the_report_says_so():
    model = hard()
    result = ptq.quantize(model, lambda: iter(data(1, 15)), eval_data=lambda: iter(data(2, 4)))
    assert result.plan.graph == prepare(Graph.from_proto(model)).graph.digest()
    note = "equalization: not applied (15 samples; at least 16 are needed)"
    assert note in result.report.changes
