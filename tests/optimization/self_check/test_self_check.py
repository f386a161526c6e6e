"""Oracle: ONNX Runtime's float results, and faults that are put in on purpose."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import onnx
import pytest
from networks import (
    build_network,
    gaussian_array,
    prepare_and_calibrate,
    random_feeds,
    sqnr_db,
    to_samples,
)

from ptq.api.quantize import quantize
from ptq.core.errors import DataError, ModelError, PlanError
from ptq.core.plan import Plan
from ptq.core.run_options import RunOptions
from ptq.evaluation.runs.session_cache import SessionCache
from ptq.model.graph import Graph
from ptq.model.session.session import Session
from ptq.optimization.self_check import checks
from ptq.optimization.self_check.self_check import quantize_with_self_check
from ptq.rewrite.prepare.prepare import prepare
from ptq.solver import quantizer
from ptq.solver.quantizer import CalibratedModel, QuantizedModel, apply_plan
from ptq.solver.recipe import Recipe

CHAIN = """
    a = Conv<kernel_shape = [3, 3]>(x, w)
    b = Conv<kernel_shape = [3, 3]>(a, v)
    y = Conv<kernel_shape = [1, 1]>(b, u)
"""
WEIGHTS = {
    "w": gaussian_array(4, 3, 3, 3, seed=1),
    "v": gaussian_array(4, 4, 3, 3, seed=2),
    "u": gaussian_array(2, 4, 1, 1, seed=3),
}


def ground(
    model: onnx.ModelProto, these: list[dict[str, np.ndarray]] | None = None
) -> CalibratedModel:
    return prepare_and_calibrate(model, these or random_feeds(model))


def handed(model: onnx.ModelProto, these: list[dict[str, np.ndarray]]) -> QuantizedModel:
    return quantize_with_self_check(
        ground(model, these),
        Recipe(),
        to_samples(these),
        sessions=SessionCache(RunOptions(threads=1)),
    )


def test_a_sound_model_keeps_all_its_integers() -> None:
    model = build_network(CHAIN, **WEIGHTS)
    assert handed(model, random_feeds(model)).plan.floats == {}


def test_a_node_that_does_not_suit_8_bits_goes_back_to_float_and_says_why() -> None:
    model = build_network("y = Sigmoid(x)", {"x": (3, 4)})
    x = np.arange(-10, -6, dtype=np.float32) - np.array([[0], [5000], [10000]], np.float32)
    made = handed(model, [{"x": x}] * 2)
    why = made.plan.floats["Sigmoid_y"]
    assert why.startswith("self-check: output y has SQNR ")
    truth = Session(made.calibrated_model.source).run({"x": x})[0]
    assert sqnr_db(truth, Session(made.quantized_graph).run({"x": x})[0]) > 100


def test_outputs_that_rounding_in_float_decides_are_not_compared_and_the_report_says_so() -> None:
    weight = gaussian_array(8, 4, 3, 3, seed=1)
    halves = np.concatenate([weight * np.float32(0.3), weight * np.float32(0.7)], axis=1)
    model = build_network(
        "c = Conv(x, w)\nd = Concat<axis = 1>(x, x)\ne = Conv(d, h)\ny = Sub(c, e)",
        {"x": (1, 4, 8, 8)},
        w=weight,
        h=halves,
    )
    data = {"x": gaussian_array(16, 4, 8, 8, seed=2)}
    for options in ({"effort": "fast"}, {}, {"plan": quantize(model, data, threads=1).plan}):
        report = quantize(model, data, threads=1, force=True, **options).report
        [found] = [s for s in report.suspects if "rounding in float alone" in s.what]
        assert found.serious
        assert re.search(r"output y has SQNR -?\d+\.\d dB \(40 dB required\)$", found.what)
        assert "no accuracy can be measured on these samples" in found.advice


def test_a_failure_on_two_samples_is_confirmed_on_more(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build_network(CHAIN, **WEIGHTS)
    these = [*random_feeds(model), *random_feeds(model), *random_feeds(model)]
    faint = [{"x": feed["x"] * np.float32(0.01)} for feed in these[:2]]
    assert handed(model, faint + these).plan.floats == {}
    monkeypatch.setattr(checks, "CONFIRMING_SHALLOW", 2)
    assert handed(model, faint + these).plan.floats != {}


@pytest.mark.parametrize("culprit", ["Conv_a", "Conv_b", "Conv_y"])
def test_the_node_at_fault_is_found_and_the_others_stay_integers(
    culprit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoiled(ground: CalibratedModel, recipe: Recipe, plan: Plan) -> QuantizedModel:
        coarse = {
            key: dataclasses.replace(params, scale=params.scale * 64)
            if key == (culprit, 1)
            else params
            for key, params in plan.operands.items()
        }
        return apply_plan(ground, recipe, dataclasses.replace(plan, operands=coarse))

    monkeypatch.setattr(quantizer, "apply_plan", spoiled)
    model = build_network(CHAIN, **WEIGHTS)
    assert list(handed(model, random_feeds(model)).plan.floats) == [culprit]


def test_a_model_whose_floats_differ_each_time_is_not_compared() -> None:
    model = build_network(
        "r = RandomNormalLike(x)\nc = Conv<kernel_shape = [3, 3]>(r, w)\ny = Relu(c)",
        w=WEIGHTS["w"],
    )
    assert "Conv_c" not in handed(model, random_feeds(model)).plan.floats


def test_a_preparation_that_changes_the_model_is_refused() -> None:
    model = build_network(CHAIN, **WEIGHTS)
    made = ground(model)
    other = build_network(CHAIN, **(WEIGHTS | {"u": -WEIGHTS["u"]}))
    wrong = dataclasses.replace(made, prepared=prepare(Graph.from_proto(other)))
    with pytest.raises(ModelError, match="graph preparation changed the model output"):
        quantize_with_self_check(
            wrong,
            Recipe(),
            to_samples(random_feeds(model)),
            sessions=SessionCache(RunOptions(threads=1)),
        )


@pytest.mark.parametrize("low", [-1e4, float(np.finfo(np.float32).min), -np.inf])
def test_a_masked_softmax_stays_float_and_what_is_before_the_mask_does_not(low: float) -> None:
    model = build_network(
        "s = MatMul(x, w)\nm = Add(s, mask)\ny = Softmax(m)",
        {"x": (3, 8, 16)},
        w=gaussian_array(16, 8, seed=4),
        mask=np.triu(np.full((8, 8), low, np.float32), 1),
    )
    data = {"x": gaussian_array(4, 3, 8, 16, seed=5)}
    result = quantize(model, data, target="tpu-mlir", threads=1)
    assert set(result.plan.floats) == {"Add_m", "Softmax_y"}
    assert any(word in result.plan.floats["Softmax_y"] for word in ("masked", "Inf"))


OVERFLOWING = "s = Mul(x, x)\nr = Relu(s)\ny = Conv<kernel_shape = [3, 3]>(r, w)"


def test_samples_on_which_all_overflows_are_refused_with_the_tensor_and_the_sample() -> None:
    model = build_network(OVERFLOWING, w=WEIGHTS["w"])
    these = random_feeds(model)
    these[1] = {"x": np.full_like(these[1]["x"], 1e30)}  # its square is beyond float32
    with pytest.raises(
        DataError, match=r"^sample 1: the float model overflows \(tensor r is NaN or Inf\)"
    ):
        handed(model, these)


def test_nan_that_the_model_takes_away_again_is_no_overflow() -> None:
    model = build_network(
        "s = Softmax(x)\nn = IsNaN(s)\ny = Where(n, z, s)", {"x": (2, 4)}, z=np.zeros(1, np.float32)
    )
    masked = np.full((2, 4), -np.inf, np.float32)
    made = handed(model, [{"x": masked}] * 2)
    assert {"Softmax_s", "Where_y"} <= set(made.plan.floats)


def test_infinities_of_a_mask_are_no_overflow() -> None:
    model = build_network(
        "m = Add(x, k)\ny = Softmax(m)", {"x": (2, 4)}, k=np.float32([0, 0, 0, -np.inf])
    )
    made = handed(model, [{"x": gaussian_array(2, 4)}] * 2)
    assert set(made.plan.floats) == {"Add_m", "Softmax_y"}


def test_what_the_user_leaves_float_anyway_is_no_case_of_overflow() -> None:
    model = build_network("y = Mul(x, x)", {"x": (2, 4)})
    these = [{"x": np.full((2, 4), 1e30, np.float32)}] * 2
    made = quantize_with_self_check(
        ground(model, these),
        Recipe(float_nodes={"Mul": "skipped"}),
        to_samples(these),
        sessions=SessionCache(RunOptions(threads=1)),
    )
    assert made.plan.floats == {"Mul_y": "skipped"}


def test_a_users_plan_is_applied_and_the_failure_of_its_check_is_reported() -> None:
    model = build_network(CHAIN, **WEIGHTS)
    made = quantize(model, random_feeds(model), threads=1)
    assert not [s for s in made.report.suspects if s.where == "the given plan"]
    spoilt = dict(made.plan.tensors)
    spoilt["a"] = dataclasses.replace(spoilt["a"], scale=spoilt["a"].scale * np.float32(1e3))
    plan = dataclasses.replace(made.plan, tensors=spoilt)
    given = quantize(model, random_feeds(model), plan=plan, threads=1)
    assert given.plan.tensors["a"] == spoilt["a"]
    (found,) = [s for s in given.report.suspects if s.where == "the given plan"]
    assert "output y has SQNR " in found.what
    evaluation = given.report.evaluation
    assert evaluation is not None
    assert evaluation.forms["int8"].outputs["y"].sqnr_db < checks.MIN_SQNR_DB


def test_a_plan_whose_model_is_not_valid_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = build_network(CHAIN, **WEIGHTS)
    made = quantize(model, random_feeds(model), threads=1)

    def broken(ground: CalibratedModel, recipe: Recipe, plan: Plan) -> QuantizedModel:
        right = apply_plan(ground, recipe, plan)
        graph = right.quantized_graph.copy()
        renamed = graph.outputs[0]
        renamed.name = "z"
        return dataclasses.replace(right, quantized_graph=graph)

    monkeypatch.setattr(quantizer, "apply_plan", broken)
    with pytest.raises(PlanError, match="inputs or outputs differ"):
        quantize(model, random_feeds(model), plan=made.plan, threads=1)
