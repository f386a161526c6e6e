"""Oracle: the error of the quantized models in ONNX Runtime against float, and methods forced one by one."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from networks import build_network, gaussian_array, sqnr_db
from numpy.typing import NDArray

import ptq
from ptq.calibration.calibration import FOLDS, CrossValidationFold, collect_in_folds
from ptq.core.run_options import RunOptions
from ptq.core.targets import TARGETS
from ptq.core.types import QuantParams
from ptq.data.splits import SampleOptions
from ptq.model.graph import Graph
from ptq.model.session.session import Session
from ptq.optimization import range_search
from ptq.optimization.output_error import OutputError, RangeEvaluator
from ptq.optimization.significance import is_significantly_lower
from ptq.rewrite.prepare.prepare import prepare
from ptq.solver.quantizer import CalibratedModel, solve_plan
from ptq.solver.recipe import Recipe
from ptq.solver.solve import solve

WEIGHT = np.array([[0.9, 0.1], [-0.2, 0.8]], np.float32)[:, :, None, None]
SIZE = 128


def spiky(pool: str) -> Any:
    """A network whose output is made of its input's greatest values, or of their mean."""
    nodes = f"c = Conv(x, w)\np = {pool}(c)\nf = Flatten(p)\ny = Gemm(f, v, b)"
    x = {"x": ("n", 2, SIZE, SIZE)}
    return build_network(nodes, x, w=WEIGHT, v=gaussian_array(2, 4), b=gaussian_array(4, seed=1))


def spikes(count: int = 12) -> dict[str, Any]:
    """Gaussian samples with one value each far outside: too few for the mean squared error to keep them."""
    x = gaussian_array(count, 2, SIZE, SIZE, seed=2)
    x[np.arange(count), np.arange(count) % 2, 7, np.arange(count)] = np.linspace(8, 11, count)
    return {"x": x}


def error_db(model: Any, made: ptq.Result) -> float:
    """Signal over error in ONNX Runtime."""
    truth = Session(Graph.from_proto(model)).run(spikes())[0]
    return sqnr_db(truth, Session(made.graph).run(spikes())[0])


def test_an_outlier_that_the_output_is_made_of_is_not_clipped() -> None:
    model = spiky("GlobalMaxPool")
    by = {m: ptq.quantize(model, spikes(), method=m, threads=1) for m in ("auto", "mse", "minmax")}
    errors = {method: error_db(model, made) for method, made in by.items()}
    assert errors["minmax"] > errors["mse"] + 10
    assert errors["auto"] > errors["mse"] + 10
    why = by["auto"].plan.why["x"].detail
    assert why.startswith("minmax; ")
    assert "; output error with mse: " in why
    (note,) = [c for c in by["auto"].report.changes if c.startswith("ranges: ")]
    assert "chosen by output error (12 samples, cross-validated)" in note


def test_an_outlier_that_the_output_does_not_show_is_clipped() -> None:
    made = ptq.quantize(spiky("GlobalAveragePool"), spikes(), threads=1)
    assert made.plan.why["x"].detail.startswith("mse")
    forced = ptq.quantize(spiky("GlobalAveragePool"), spikes(), method="mse", threads=1)
    assert made.plan.tensors["x"] == forced.plan.tensors["x"]


def test_what_an_output_is_ordered_by_keeps_its_extremes() -> None:
    nodes = "c = Conv(x, w)\np = Relu(c)\ny = Softmax<axis = 1>(p)"
    model = build_network(nodes, {"x": (1, 2, SIZE, SIZE)}, w=WEIGHT)
    data = {"x": spikes()["x"][:, None]}
    made = ptq.quantize(model, [{"x": x} for x in data["x"]], threads=1)
    seen = made.calibration.tensors
    for name, params in made.plan.tensors.items():
        if "order" in made.plan.why[name].detail:
            assert float(params.dequantize(np.array(255))) >= seen[name].max * 0.99
    assert any("order" in why.detail for why in made.plan.why.values())


def test_probabilities_are_evaluated_by_their_logits() -> None:
    """Scores so far apart that float32 probabilities are 0 and 1, but on one sample."""
    nodes = "c = Conv(x, w)\np = GlobalMaxPool(c)\nf = Flatten(p)\ns = Gemm(f, v, b)"
    far = 300 * np.array([[1, -1, 0, 0], [0, 0, 1, -1]], np.float32)
    weights = {"w": WEIGHT, "v": far, "b": np.zeros(4, np.float32)}
    x = {"x": ("n", 2, SIZE, SIZE)}
    chosen = []
    for last in ("y = Identity(s)", "y = Softmax(s)"):
        made = ptq.quantize(build_network(f"{nodes}\n{last}", x, **weights), spikes(), threads=1)
        chosen.append({n: why.detail for n, why in made.plan.why.items() if n in ("x", "c")})
    assert chosen[0]["x"].startswith("minmax; ")
    assert chosen[0] == chosen[1]


def test_held_out_samples_set_no_range_before_the_search_and_all_ranges_after_it() -> None:
    data = spikes(60)
    model = spiky("GlobalMaxPool")
    made = ptq.quantize(model, data, eval_data=spikes(4), equalize=False, threads=1)
    assert made.calibration.samples == 60
    assert made.calibration.to_bytes() == ptq.calibrate(model, data, threads=1).to_bytes()
    (note,) = [c for c in made.report.changes if c.startswith("ranges: ")]
    assert "chosen by output error (24 samples, cross-validated)" in note


def test_an_operator_without_inputs_is_no_quantizer() -> None:
    nodes = "e = SequenceEmpty()\ns = SequenceInsert(e, x)\nt = SequenceAt(s, i)\ny = Gemm(t, w)"
    model = build_network(nodes, {"x": (4, 16)}, w=gaussian_array(16, 8), i=[0])
    data = {"x": gaussian_array(12, 4, 16).reshape(48, 16)}
    made = ptq.quantize(model, [{"x": data["x"][k : k + 4]} for k in range(0, 48, 4)], threads=1)
    assert set(made.plan.floats) == {"SequenceEmpty_e", "SequenceInsert_s", "SequenceAt_t"}


def test_a_method_that_is_worse_for_certain_is_not_run_on_all_samples(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Against trials of all samples: the same choices."""
    errors, model = OutputError.errors, spiky("GlobalMaxPool")
    stopped = ptq.quantize(model, spikes(), threads=1)
    monkeypatch.setattr(
        OutputError, "errors", lambda self, session, feed, *_: errors(self, session, feed)
    )
    whole = ptq.quantize(model, spikes(), threads=1)
    assert stopped.graph.digest() == whole.graph.digest()
    assert stopped.plan.tensors == whole.plan.tensors
    pairs = [(stopped.plan.why[name].detail, why.detail) for name, why in whole.plan.why.items()]
    bounds = [(ours, theirs) for ours, theirs in pairs if "at least" in ours]
    assert bounds
    assert all(_figure(ours) <= _figure(theirs) for ours, theirs in bounds)


def _figure(detail: str) -> float:
    """The decibels that a reason names."""
    return float(detail.partition(" dB")[0].rpartition(" ")[2])


def test_the_same_samples_give_the_same_bytes() -> None:
    first, second = (ptq.quantize(spiky("GlobalMaxPool"), spikes(), threads=1) for _ in range(2))
    assert first.graph.to_bytes() == second.graph.to_bytes()
    assert first.plan.to_json() == second.plan.to_json()


def test_without_samples_the_plan_says_why_it_is_the_mean_squared_error() -> None:
    model = spiky("GlobalMaxPool")
    seen = ptq.calibrate(model, spikes(), threads=1)
    made = ptq.quantize(model, stats=seen, threads=1)
    assert made.plan.why["x"].detail == "mse, without samples to compare methods"


def test_without_a_comparison_the_plan_names_what_prevented_it() -> None:
    fast = ptq.quantize(spiky("GlobalMaxPool"), spikes(), effort="fast", threads=1)
    assert fast.plan.why["x"].detail == "mse, because effort fast compares no methods"
    few = ptq.quantize(spiky("GlobalMaxPool"), spikes(4), threads=1)
    assert few.plan.why["x"].detail == "mse, with too few samples to compare methods"


def test_every_fold_is_evaluated_with_its_own_ranges() -> None:
    prepared = prepare(Graph.from_proto(spiky("GlobalMaxPool")))
    graph, whole = prepared.graph, SampleOptions().open(spikes(16), prepared.graph)
    seen, folds = collect_in_folds(graph, whole, run=RunOptions(threads=1))
    plan = solve_plan(CalibratedModel("", graph, prepared, seen), Recipe(method="mse"))
    params = [
        solve(graph, f.calibration.tensors, TARGETS["ort"], Recipe(method="mse")).tensors
        for f in folds
    ]
    assert len({float(of["x"].scale) for of in params}) == 2
    run = RunOptions(threads=1)

    def errors(
        folds: list[CrossValidationFold], params: list[Mapping[str, QuantParams]]
    ) -> NDArray[np.float64]:
        some = [list(fold.samples.spread(4)) for fold in folds]
        numbers = [index for index, of in enumerate(some) for _ in of]
        floats = OutputError(graph, itertools.chain(*some), run, numbers)
        return RangeEvaluator(graph, plan, ["x"], folds, floats, run).errors(params)

    together = errors(folds, params)
    alone = [errors([f], [of]) for f, of in zip(folds, params, strict=True)]
    for errors, expected in zip(np.split(together, FOLDS), alone, strict=True):
        shares, wanted = errors / errors.sum(), expected / expected.sum()  # energies differ
        np.testing.assert_allclose(shares, wanted, rtol=1e-6)


@pytest.mark.parametrize(("outliers", "better"), [(1, False), (2, False), (12, True)])
def test_it_takes_more_than_one_or_two_samples_to_be_better_by_these_alone(
    outliers: int, better: bool
) -> None:
    """Of 32 samples whose errors are else the same on average, so many were forty times as large before."""
    errors = np.exp(gaussian_array(32, seed=4, scale=0.5).astype(np.float64))
    before = errors[::-1].copy()
    before[:outliers] *= 40
    assert errors.mean() < 0.5 * before.mean()
    assert is_significantly_lower(errors, before) is better


def test_a_little_less_in_all_samples_is_better() -> None:
    errors = np.exp(gaussian_array(32, seed=5, scale=2.0).astype(np.float64))
    assert is_significantly_lower(0.9 * errors, errors)
    assert not is_significantly_lower(0.97 * errors, errors)


def test_a_negligible_error_needs_no_other_method(monkeypatch: pytest.MonkeyPatch) -> None:
    errors, sessions = OutputError.errors, []

    def count_runs(self: OutputError, session: Any, *rest: Any) -> Any:
        sessions.append(session)
        return errors(self, session, *rest)

    monkeypatch.setattr(OutputError, "errors", count_runs)
    monkeypatch.setattr(range_search, "NEGLIGIBLE_ERROR", 1.0)
    made = ptq.quantize(spiky("GlobalMaxPool"), spikes(), threads=1, equalize=False)
    assert len(sessions) == 1
    assert {str(why) for why in made.plan.why.values() if "mse" in str(why)}
