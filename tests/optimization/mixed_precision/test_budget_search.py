"""The search for the fewest float nodes; the oracle is a network made hard on purpose, at nodes that are known."""

from __future__ import annotations

from typing import Any

import pytest
from hard import READERS, SAMPLE_DATA, WRITERS, hard_model

from ptq.calibration.calibration import collect_statistics
from ptq.core.errors import UsageError
from ptq.core.run_options import RunOptions
from ptq.data import Preprocess, Sample
from ptq.data.splits import SampleOptions, SampleSplit, split_samples
from ptq.evaluation.budget import BudgetSearch
from ptq.evaluation.tasks.task import NO_LABELS
from ptq.model.graph import Graph
from ptq.optimization.mixed_precision.attribution.error_attribution import SAMPLES
from ptq.optimization.mixed_precision.budget_search import (
    MAX_FLOAT_SHARE,
    REASON_PREFIX,
    find_fewest_float_nodes,
    search_for_budget,
)
from ptq.optimization.mixed_precision.float_trials import Trials
from ptq.rewrite.prepare.prepare import prepare
from ptq.solver.quantizer import CalibratedModel
from ptq.solver.recipe import Recipe

NOTHING: dict[str, Any] = {"metric": None, "task": None, "labels": NO_LABELS, "run": RunOptions()}
IMAGES = Preprocess(mean=(0.286,), std=(0.353,))


@pytest.fixture(scope="module")
def ground() -> CalibratedModel:
    return _ground(hard_model())


def _ground(model: Graph) -> CalibratedModel:
    prepared = prepare(model)
    samples = SampleOptions(IMAGES, 48).open(SAMPLE_DATA / "images" / "calibration", prepared.graph)
    calibration = collect_statistics(
        prepared.graph, samples, run=RunOptions(threads=1, progress=None), checkpoint=None
    )
    return CalibratedModel("hard", model, prepared, calibration)


@pytest.fixture(scope="module")
def held_out(ground: CalibratedModel) -> list[Sample]:
    folder = SAMPLE_DATA / "images" / "evaluation"
    labelled = SampleOptions(IMAGES, 150).open(folder, ground.source)
    return [Sample(s.name, s.feed) for s in labelled]  # agreement with float: less is chance in it


def _trials(ground: CalibratedModel, samples: list[Sample], recipe: Recipe) -> Trials:
    return Trials(ground, recipe, samples, run=RunOptions(evaluation_batch=8, threads=1))


@pytest.fixture(scope="module")
def trials(ground: CalibratedModel, held_out: list[Sample]) -> Trials:
    return _trials(ground, held_out, Recipe(method="minmax"))


@pytest.fixture(scope="module")
def steps() -> list[int]:
    return []


@pytest.fixture(scope="module")
def found(trials: Trials, steps: list[int]) -> BudgetSearch:
    return find_fewest_float_nodes(
        trials, 2.0, run=RunOptions(threads=1), advance=lambda: steps.append(1)
    )


def test_progress_covers_every_measurement_and_every_round_of_error_attribution(
    found: BudgetSearch, steps: list[int]
) -> None:
    weighing = len(steps) - found.measurements
    assert weighing > 0
    assert weighing % SAMPLES == 0


def test_the_nodes_around_the_large_channel_are_found_and_the_budget_is_kept(
    found: BudgetSearch, trials: Trials
) -> None:
    assert found.without.points > 2.0
    assert found.reached
    assert found.drop.points <= 2.0
    assert {name for name in found.floats if name.endswith("Conv")} == {*WRITERS, *READERS}
    assert all(why.startswith(REASON_PREFIX) for why in found.floats.values())
    assert found.measurements + found.estimates < found.sources
    again, _ = trials.measure(trials.quantize(found.floats).quantized_graph)
    assert again == found.drop


def test_with_one_group_of_them_less_it_would_not_be_kept(
    found: BudgetSearch, trials: Trials
) -> None:
    for why in set(found.floats.values()):
        fewer = {name: reason for name, reason in found.floats.items() if reason != why}
        drop, _ = trials.measure(trials.quantize(fewer).quantized_graph)
        assert drop.points > 2.0


def test_a_budget_that_holds_anyway_costs_one_measurement(held_out: list[Sample]) -> None:
    plain = _ground(Graph.load(SAMPLE_DATA / "fashion_mobilenet.onnx"))
    found = find_fewest_float_nodes(
        _trials(plain, held_out[:60], Recipe()), 5.0, run=RunOptions(threads=1)
    )
    assert (found.reached, dict(found.floats)) == (True, {})
    assert (found.measurements, found.estimates) == (1, 0)


def test_a_budget_out_of_reach_leaves_half_in_integers(
    ground: CalibratedModel, held_out: list[Sample]
) -> None:
    trials = Trials(
        ground,
        Recipe(),
        held_out[:3],
        run=RunOptions(evaluation_batch=8, threads=1),
        metric=_worse(),
    )
    found = find_fewest_float_nodes(trials, 0.5, run=RunOptions(threads=1))
    assert not found.reached
    nodes = len(ground.prepared.graph.nodes)
    assert len(found.floats) <= MAX_FLOAT_SHARE * nodes


def _worse():  # type: ignore[no-untyped-def] # a metric by which the second form asked is always worse
    calls = []

    def worse(outputs, samples):  # type: ignore[no-untyped-def]
        calls.append(1)
        return [float(len(calls) % 2)] * len(samples)

    return worse


def test_a_budget_without_samples_or_below_nothing_is_a_usage_error(
    ground: CalibratedModel,
) -> None:
    with pytest.raises(UsageError, match="give `data`"):
        search_for_budget(ground, Recipe(), SampleSplit(None, None, ""), 1.0, **NOTHING)
    with pytest.raises(UsageError, match="give 0 points or more"):
        search_for_budget(ground, Recipe(), SampleSplit(None, None, ""), float("nan"), **NOTHING)


def test_samples_to_search_on_are_none_that_a_range_is_chosen_on(ground: CalibratedModel) -> None:
    graph, folder = ground.prepared.graph, SAMPLE_DATA / "images"
    many, few = folder / "evaluation", folder / "calibration"
    both = split_samples(graph, many, few, SampleOptions(IMAGES), search=True)
    assert both.search is not None
    assert both.calibration is not None
    assert not set(both.search.names) & set(both.calibration.names)
    assert len(both.search) == 100
    # a fifth of 128 would say too little
    assert (
        shared := split_samples(graph, few, many, SampleOptions(IMAGES), search=True)
    ).search is shared.evaluation
    assert len(shared.calibration or ()) == 128
    assert split_samples(graph, many, few, SampleOptions(IMAGES)).search is None
