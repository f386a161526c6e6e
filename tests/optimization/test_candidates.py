"""Oracle: errors given by hand, of which it is known what they should lead to; and float's outputs, moved by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from networks import build_network, gaussian_array

from ptq.calibration.calibration import collect_in_folds
from ptq.core.run_options import RunOptions
from ptq.data import open_samples
from ptq.data.splits import input_specs
from ptq.model.graph import Graph
from ptq.optimization.candidates import CandidateComparison
from ptq.optimization.output_error import RangeEvaluator
from ptq.optimization.range_candidates import METHODS
from ptq.rewrite.edit import set_constant
from ptq.rewrite.prepare.prepare import PreparedModel, prepare
from ptq.solver.quantizer import CalibratedModel, solve_plan
from ptq.solver.recipe import Recipe

SAMPLES = 32
WEIGHTS = {
    "w": gaussian_array(6, 4),
    "v": gaussian_array(3, 6, seed=1),
    "b": gaussian_array(6, seed=2),
    "c": gaussian_array(3),
}


@pytest.fixture
def plain() -> PreparedModel:
    nodes = "h = Gemm<transB = 1>(x, w, b)\nr = Relu(h)\ny = Gemm<transB = 1>(r, v, c)"
    return prepare(Graph.from_proto(build_network(nodes, {"x": ("n", 4)}, **WEIGHTS)))


def comparison(plain: PreparedModel, method: str = "auto") -> CandidateComparison:
    data = [{"x": gaussian_array(1, 4, seed=seed)} for seed in range(SAMPLES)]
    samples = open_samples(lambda: iter(data), input_specs(plain.graph))
    return CandidateComparison("m", plain, Recipe(method=method), samples, RunOptions(threads=1))


def rename(plain: PreparedModel, note: str = "scaled") -> PreparedModel:
    """The same model with another note."""
    return replace(plain, notes=(note,))


def set_errors(
    monkeypatch: pytest.MonkeyPatch, errors: Mapping[str, float], plain: float = 1e-3
) -> None:
    """Let each form have the error that stands beside its note."""

    def least_error(self: Any, form: PreparedModel, advance: Any) -> float:
        return errors[form.notes[0]] if form.notes else plain

    monkeypatch.setattr(CandidateComparison, "_least_error", least_error)


def test_the_form_with_the_least_error_is_taken(plain, monkeypatch):
    set_errors(monkeypatch, {"a": 0.9e-3, "b": 0.5e-3})
    best = comparison(plain).select_best([rename(plain, "a"), rename(plain, "b")])
    assert best.notes == ("b; SQNR 30.0 → 33.0 dB on 32 samples, cross-validated",)


def test_a_form_with_a_higher_error_is_not_applied(plain, monkeypatch):
    set_errors(monkeypatch, {"a": 1.1e-3})
    best = comparison(plain).select_best([rename(plain, "a")])
    note = "equalization: not applied (SQNR 30.0 → 29.6 dB on 32 samples, cross-validated)"
    assert (best.graph, best.notes) == (plain.graph, (note,))


@pytest.mark.parametrize(("error", "applied"), [(0.94e-3, True), (0.96e-3, False)])
def test_the_error_of_a_form_that_takes_time_must_be_five_percent_lower(
    plain, monkeypatch, error, applied
):
    set_errors(monkeypatch, {"a": error})
    form = replace(rename(plain, "a"), boundaries={"h": ("reader",)})
    assert bool(comparison(plain).select_best([form]).boundaries) is applied


def test_a_form_that_computes_another_function_is_not_applied(plain):
    graph = plain.graph.copy()
    node = next(node for node in graph.nodes if node.op_type == "Gemm")
    set_constant(graph, node, 1, WEIGHTS["w"] * np.float32(0.95), "w")
    kept = comparison(plain).select_best([PreparedModel(graph, notes=("scaled",))])
    assert kept.graph is plain.graph
    assert kept.notes[-1].startswith("equalization: not applied (SQNR ")


@pytest.mark.parametrize(("asked", "used"), [("auto", METHODS), ("minmax", ("minmax",))])
def test_candidates_are_evaluated_by_the_methods_that_can_be_chosen(
    plain, monkeypatch, asked, used
):
    """Oracle: the scales of each method from the statistics of each fold."""
    feeds: list[Any] = []
    errors = RangeEvaluator.errors

    def recorded(self: Any, params: Any) -> Any:
        feeds.append([float(of_fold["x"].scale) for of_fold in params])
        return errors(self, params)

    monkeypatch.setattr(RangeEvaluator, "errors", recorded)
    compared = comparison(plain, asked)
    compared.select_best([rename(plain)])
    assert len(feeds) == 2 * len(used)
    _, folds = collect_in_folds(plain.graph, compared._samples, run=RunOptions(threads=1))
    for method, scales in zip(used, feeds[: len(used)], strict=True):
        plans = [
            solve_plan(
                CalibratedModel("m", plain.graph, plain, fold.calibration), Recipe(method=method)
            )
            for fold in folds
        ]
        expected = [float(plan.tensors["x"].scale) for plan in plans]
        assert scales == pytest.approx(expected, rel=0.021)  # similar scales are measured once
