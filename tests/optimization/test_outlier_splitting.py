"""Oracle: the float model in ONNX Runtime on samples that nothing was decided on, and the graph's digest."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx
import pytest
from networks import build_network
from onnx import TensorProto, helper, numpy_helper

import ptq
from ptq.core.run_options import RunOptions
from ptq.data import Samples
from ptq.data.splits import SampleOptions
from ptq.model.graph import Graph
from ptq.model.session.session import Session
from ptq.optimization.earlier_run import NOTHING_GIVEN
from ptq.optimization.effort import EFFORTS
from ptq.optimization.outlier_channels import find_outlier_channels
from ptq.optimization.outlier_splitting import split_outlier_channels
from ptq.rewrite.prepare.prepare import PreparedModel, prepare
from ptq.solver.recipe import Recipe

WIDTH = 128


@cache
def hard(factor: float = 5.0) -> bytes:
    """Normalized rows, two channels many times as far as the others; products, and a Gelu between them."""
    rng = np.random.default_rng(5)
    gain = np.ones(WIDTH)
    gain[[7, 90]] = factor
    weights = {
        "gain": gain,
        "offset": rng.normal(size=WIDTH) * 0.1,
        "w1": rng.normal(size=(WIDTH, WIDTH)) * WIDTH**-0.5 / gain[:, None],
        "w2": rng.normal(size=(WIDTH, WIDTH)) * WIDTH**-0.5,
    }
    nodes = [
        helper.make_node("LayerNormalization", ["x", "gain", "offset"], ["n"], name="norm"),
        helper.make_node("MatMul", ["n", "w1"], ["h"], name="first"),
        helper.make_node("Relu", ["h"], ["g"], name="relu"),
        helper.make_node("MatMul", ["g", "w2"], ["y"], name="second"),
    ]
    shape = ["n", "tokens", WIDTH]
    graph = helper.make_graph(
        nodes,
        "hard",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


def model(factor: float = 5.0) -> onnx.ModelProto:
    return onnx.load_model_from_string(hard(factor))


def data(seed: int, count: int = 24) -> list[dict[str, np.ndarray]]:
    """Sequences of different lengths."""
    rng = np.random.default_rng(seed)
    return [{"x": rng.normal(size=(1, 3 + k % 4, WIDTH)).astype(np.float32)} for k in range(count)]


@cache
def quantize(factor: float = 5.0, **options: object) -> ptq.Result:
    samples = {"data": lambda: iter(data(1)), "eval_data": lambda: iter(data(2, 2))}
    return ptq.quantize(model(factor), **samples, **options)


def decibels(quantized: Graph) -> float:
    sessions = Session(Graph.from_proto(model())), Session(quantized)
    signal = noise = 0.0
    for feed in data(99, 8):
        truth, got = (session.run(feed)[0].astype(np.float64) for session in sessions)
        signal += float(np.square(truth).sum())
        noise += float(np.square(truth - got).sum())
    return 10 * np.log10(signal / noise)


def alone(factor: float = 5.0) -> Graph:
    return prepare(Graph.from_proto(model(factor))).graph


def split(
    prepared: PreparedModel, samples: Samples, recipe: Recipe
) -> tuple[PreparedModel, Recipe]:
    run = RunOptions(threads=1)
    return split_outlier_channels(prepared, samples, recipe, NOTHING_GIVEN, EFFORTS["default"], run)


def before(factor: float, *, target: str = "ort") -> str:
    """The digest of the graph that will be observed."""
    graph = Graph.from_proto(model(factor))
    samples = SampleOptions(None, None, False).open(lambda: iter(data(1)), graph)
    return split(prepare(graph), samples, Recipe(target))[0].graph.digest()


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_channels_five_times_as_far_as_others_cost_no_accuracy(form):
    result, without = quantize(form=form), quantize(form=form, split_outliers=False)
    assert decibels(result.graph) > 33
    assert decibels(result.graph) > decibels(without.graph) + 6
    [note] = [c for c in result.report.changes if c.startswith("outlier splitting")]
    assert note.startswith(
        "outlier splitting (LLM.int8): 2 channels of 1 tensor computed in float; SQNR "
    )
    assert result.plan.graph != without.plan.graph == alone().digest()
    fates = {row.name: row.fate for row in result.report.nodes}
    assert fates["first"] == fates["second"] == "int8"
    [gather] = [row for row in result.report.nodes if row.op == "Gather"]
    assert gather.fate == "float"
    assert "outlier channels" in gather.why


def test_the_integers_agree_with_onnx_runtime_beside_a_float_part():
    evaluation = quantize().report.evaluation
    assert evaluation is not None
    integers, int8 = (evaluation.forms[name].outputs["y"].sqnr_db for name in ("integers", "int8"))
    assert integers == pytest.approx(int8, abs=0.1)


def test_the_remaining_channels_are_equalized_where_that_gains(monkeypatch):
    rng = np.random.default_rng(8)
    unlike = model()
    gain = 2.0 ** rng.uniform(-3, 0, WIDTH) * np.where(np.isin(np.arange(WIDTH), [7, 90]), 8, 1)
    for tensor in unlike.graph.initializer:
        if tensor.name == "gain":
            tensor.CopyFrom(numpy_helper.from_array(gain.astype(np.float32), "gain"))
        if tensor.name == "w1":
            w1 = rng.normal(size=(WIDTH, WIDTH)) * WIDTH**-0.5 / gain[:, None]
            tensor.CopyFrom(numpy_helper.from_array(w1.astype(np.float32), "w1"))
    graph = Graph.from_proto(unlike)
    samples = SampleOptions(None, None, False).open(lambda: iter(data(1)), graph)

    def reached() -> float:
        note = split(prepare(graph), samples, Recipe())[0].notes[-1]
        return float(note.removesuffix(" dB").split()[-1])

    alike = reached()
    monkeypatch.setattr("ptq.optimization.outlier_splitting._EXTREMES_EXPONENTS", ())
    assert alike > reached() + 3


def test_samples_after_the_first_measure_the_outliers_too(monkeypatch):
    expected = before(5.0)
    monkeypatch.setattr("ptq.optimization.outlier_splitting._FIRST_SAMPLES", 1000)
    assert before(5.0) == expected != alone(5.0).digest()


def test_without_outliers_few_samples_run(monkeypatch):
    runs = []
    run = Session.run
    monkeypatch.setattr(Session, "run", lambda *args: runs.append(1) or run(*args))
    assert before(1.0) == alone(1.0).digest()
    assert len(runs) == 8


def test_channels_that_are_alike_stay_together():
    assert before(1.0) == alone(1.0).digest()


def test_a_model_that_is_good_anyway_is_left_as_it_is(monkeypatch):
    assert before(5.0) != alone(5.0).digest()
    monkeypatch.setattr("ptq.optimization.outlier_splitting._SUFFICIENT_DB", 5.0)
    assert before(5.0) == alone(5.0).digest()


@pytest.mark.parametrize("target", ["litert", "gemmlowp", "tpu-mlir"])
def test_where_all_is_computed_on_integers_there_is_no_float_part(target):
    assert before(5.0, target=target) == alone(5.0).digest()


@pytest.mark.parametrize("target", ["openvino", "portable", "tensorrt"])
def test_channels_are_split_where_quantizers_stand_before_layers_only(target):
    result = quantize(target=target)
    without = quantize(target=target, split_outliers=False)
    assert decibels(result.graph) > decibels(without.graph) + 6
    if target == "tensorrt":
        assert ptq.lint(result.graph.to_proto(), target=target) == ()


def test_a_plan_of_the_model_with_split_channels_is_applied_on_the_same_samples():
    first = quantize(rounding="nearest")
    samples = {"data": lambda: iter(data(1)), "eval_data": lambda: iter(data(2, 2))}
    again = ptq.quantize(model(), plan=first.plan, rounding="nearest", **samples)
    assert again.graph.digest() == first.graph.digest()


def test_statistics_serve_again_with_the_same_samples():
    first = quantize()
    again = ptq.quantize(model(), lambda: iter(data(1)), stats=first.calibration)
    assert again.plan.graph == first.plan.graph != alone().digest()


@pytest.mark.parametrize("samples", [True, False])
def test_statistics_of_the_plain_model_keep_it_whole_and_the_report_says_so(samples):
    plain = ptq.calibrate(model(), lambda: iter(data(1)))
    given = (lambda: iter(data(1))) if samples else None
    again = ptq.quantize(model(), given, stats=plain)
    assert again.plan.graph == plain.graph
    said = "outlier splitting: not applied (the given statistics belong to the model without it)"
    assert said in again.report.changes
    asked = ptq.quantize(model(), given, stats=plain, split_outliers=False)
    assert said not in asked.report.changes


def test_sensitivity_ranks_what_quantize_makes_of_the_model():
    assert ptq.sensitivity(model(), lambda: iter(data(1)), measure=0).sqnr_db > 30


def test_a_sample_that_the_model_fails_on_is_named():
    bad = [*data(1), {"x": np.zeros((1, 2, WIDTH - 1), np.float32)}]
    with pytest.raises(ptq.DataError, match="24"):
        ptq.quantize(model(), lambda: iter(bad))


def test_outliers_are_as_few_as_leave_nearly_the_least_range():
    greatest = np.linspace(1, 1.1, WIDTH).astype(np.float32)
    greatest[[3, 50, 51]] = 40, 20, 20
    assert find_outlier_channels(-greatest, greatest).tolist() == [3, 50, 51, 127]
    assert find_outlier_channels(np.zeros(WIDTH, np.float32), np.zeros(WIDTH, np.float32)).size == 0
    assert find_outlier_channels(-greatest[:16], greatest[:16]).size == 0
    greatest[52:] = 20
    assert find_outlier_channels(-greatest, greatest).tolist() == [3]


def test_a_product_of_the_model_s_own_input_is_quantized() -> None:
    rng = np.random.default_rng(6)
    weight = rng.normal(size=(WIDTH, 8)).astype(np.float32)
    product = build_network("y = MatMul(x, w)", {"x": ("n", WIDTH)}, w=weight)
    result = ptq.quantize(product, {"x": rng.normal(size=(40, WIDTH)).astype(np.float32)})
    assert [node.fate for node in result.report.nodes] == ["int8"]
