"""Oracle: errors given by hand, of which it is known what they should lead to; and float's outputs, moved by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from networks import build_network, gaussian_array

import ptq.optimization.candidates
from ptq.core.run_options import RunOptions
from ptq.data import open_samples
from ptq.data.splits import input_specs
from ptq.model.graph import Graph
from ptq.optimization.candidates import CandidateComparison
from ptq.optimization.range_candidates import METHODS
from ptq.rewrite.edit import set_constant
from ptq.rewrite.prepare.prepare import PreparedModel, prepare
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


def forms(plain: PreparedModel, method: str = "auto") -> CandidateComparison:
    """A trial of which every fourth sample is held out."""
    data = [{"x": gaussian_array(1, 4, seed=seed)} for seed in range(SAMPLES)]
    samples = open_samples(lambda: iter(data), input_specs(plain.graph))
    held = range(0, SAMPLES, 4)
    learnt = samples.subset(i for i in range(SAMPLES) if i not in held)
    return CandidateComparison(
        "m", plain, Recipe(method=method), learnt, samples.subset(held), RunOptions(threads=1)
    )


def other(plain: PreparedModel) -> PreparedModel:
    """The same model under another sentence."""
    return replace(plain, notes=("made it otherwise",))


def with_errors(
    monkeypatch: pytest.MonkeyPatch, form: PreparedModel, factors: Mapping[str, float], noise: float
) -> None:
    """Let the form's errors be the plain model's times a factor a method, but for noise of the samples' own."""
    rng = np.random.default_rng(7)
    base = {m: rng.lognormal(0, 0.3, SAMPLES) for m in METHODS}

    def errors(self: Any, candidate: PreparedModel, advance: Any) -> Any:
        seen = np.random.default_rng(8)
        rows = []
        for method in self._methods:
            by = seen.lognormal(0, noise, SAMPLES)
            rows.append(base[method] * (factors[method] * by if candidate is form else 1.0))
        return np.stack(rows)

    monkeypatch.setattr(CandidateComparison, "_errors", errors)


def test_a_form_is_taken_where_all_methods_together_are_sure_of_it(plain, monkeypatch):
    form = other(plain)
    with_errors(monkeypatch, form, {"mse": 0.97, "minmax": 0.6, "percentile": 0.8}, noise=0.4)
    alone = forms(plain, "mse").select_best([form])
    assert alone.notes[-1].startswith("equalization: not applied (SQNR ")
    together = forms(plain).select_best([form])
    assert together.notes[-1].startswith("made it otherwise; SQNR ")
    assert together.notes[-1].endswith(" dB on held-out samples, mean of 3 range methods")


def test_a_form_is_left_where_it_is_worse_by_the_method_that_suits_the_plain_model_best(
    plain, monkeypatch
):
    form = other(plain)
    factors = {"mse": 1.2, "minmax": 0.3, "percentile": 0.3}
    with_errors(monkeypatch, form, factors, noise=0.1)
    by_errors = CandidateComparison._errors
    # the other methods are so bad for this model that their gain decides nothing
    worse = np.array([1.0, 50.0, 50.0])[:, None]
    monkeypatch.setattr(
        CandidateComparison, "_errors", lambda self, *given: by_errors(self, *given) * worse
    )
    assert forms(plain).select_best([form]).notes[-1].startswith("equalization: not applied")


def test_a_form_that_moves_outputs_on_held_out_samples_is_left(plain):
    graph = plain.graph.copy()
    node = next(node for node in graph.nodes if node.op_type == "Gemm")
    set_constant(graph, node, 1, WEIGHTS["w"] * np.float32(0.98), "w")
    form = PreparedModel(graph, notes=("made it otherwise",))
    kept = forms(plain).select_best([form])
    assert kept.graph is plain.graph
    assert kept.notes[-1] == (
        "equalization: not applied (channels exceed their Clip bounds on held-out samples)"
    )


@pytest.mark.parametrize(("asked", "used"), [("auto", METHODS), ("minmax", ("minmax",))])
def test_candidates_are_evaluated_by_the_methods_that_may_be_chosen(
    plain, monkeypatch, asked, used
):
    seen: list[str] = []
    planned = ptq.optimization.candidates.solve_plan

    def noted(ground: Any, recipe: Recipe) -> Any:
        seen.append(recipe.method)
        return planned(ground, recipe)

    monkeypatch.setattr("ptq.optimization.candidates.solve_plan", noted)
    forms(plain, asked).select_best([other(plain)])
    assert seen == [*used, *used]
