"""Which are the fewest nodes to leave float for a model to stay within its budget?

What each rounding makes of the error, for the time that its nodes cost in float, says in which order they are worth
leaving float; a search among the first one, two, four … of them, and then between, measures how many it takes; where
half of the nodes are too few, so does the order by the error alone. At last some are tried without. Every measurement
quantizes the model anew and runs it on samples that no range was chosen on.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from ptq.core.errors import UsageError
from ptq.core.plan import Plan
from ptq.core.run_options import DEFAULT_RUN, RunOptions
from ptq.data import Sample
from ptq.data.splits import SampleSplit, takes_any_batch
from ptq.evaluation.drop import BudgetSearch, Drop
from ptq.evaluation.evaluate import Engine, evaluate_engines, session_engine
from ptq.evaluation.session_cache import open_float_session
from ptq.evaluation.user_metric import Metric
from ptq.model.graph import Graph
from ptq.model.node import name_of
from ptq.model.session import Session
from ptq.optimization.mixed_precision.error_attribution import SAMPLES, attribute_error
from ptq.optimization.mixed_precision.float_candidates import (
    FloatCandidate,
    count_fused_as_one,
    greedy_candidates,
)
from ptq.optimization.mixed_precision.float_cost import (
    error_sources_of,
    float_time_model,
    time_cost,
)
from ptq.optimization.pipeline import Job
from ptq.rewrite.instrument.logits import logits_graph
from ptq.solver.quantizer import CalibratedModel, QuantizedModel, apply_plan, solve_plan
from ptq.solver.recipe import Recipe

MAX_SAMPLES = 512  # samples, held in memory
MAX_FLOAT_SHARE = (
    0.5  # of the nodes that round: a model with more of them float is no quantized one
)
REMOVALS_TRIED = 6  # nodes that are tried without, at the end
REASON_PREFIX = "for the accuracy budget: "


def search_for_budget(
    ground: CalibratedModel,
    recipe: Recipe,
    parts: SampleSplit,
    points: float,
    *,
    metric: Metric | None = None,
    run: RunOptions = DEFAULT_RUN,
) -> BudgetSearch:
    """Find the fewest nodes to leave float on the samples that the user's data have for that.

    Args:
        ground: The float model and its statistics.
        recipe: How to quantize it; nodes that it leaves float stay so.
        parts: The samples.
        points: The greatest drop, in points of the metric.
        metric: As for `evaluate`.
        run: How the job runs.

    Raises:
        UsageError: There are no samples, or the budget is no number of at least 0.
        ModelError: ONNX Runtime does not take a model.
        DataError: A sample is bad, or the model fails on it.
    """
    if not points >= 0:
        raise UsageError(f"a budget of {points} points; give 0 or more")
    if parts.search is None:
        raise UsageError("max_drop needs samples: pass data or eval_data")
    samples = list(run.track(parts.search.spread(MAX_SAMPLES), "reading samples to search on"))
    trials = Trials(ground, recipe, samples, metric=metric, run=run)
    advance = run.start_stage("searching", None)
    found = fewest_float_nodes(trials, points, run=run, advance=advance)
    return replace(found, apart=parts.search is not parts.evaluation)


def search_within_budget(
    job: Job, model: CalibratedModel, recipe: Recipe, solved: Plan | None
) -> tuple[Recipe, Plan | None, BudgetSearch | None]:
    """The recipe with the nodes that have to stay float for the budget; unchanged without a budget or with a plan.

    Returns:
        The recipe; the solved plan, None where the recipe has changed; the search, None where there was none.

    Raises:
        UsageError: The budget is not a number of at least 0.
        DataError: A sample is bad, or the model fails on it.
    """
    points = job.options.max_drop
    if points is None or job.given.plan is not None:
        return recipe, solved, None
    found = search_for_budget(
        model, recipe, job.samples, points, metric=job.options.metric, run=job.run
    )
    return recipe.with_float_nodes(found.floats), None, found


class Trials:
    """Quantizes with some nodes left float and measures the drop, the float model's outputs being known."""

    def __init__(
        self,
        ground: CalibratedModel,
        recipe: Recipe,
        samples: Sequence[Sample],
        *,
        metric: Metric | None = None,
        run: RunOptions = DEFAULT_RUN,
    ) -> None:
        """``recipe`` may name nodes that stay float anyway."""
        self.ground, self.recipe, self.samples = ground, recipe, samples
        self.count = 0
        self._metric, self._run = metric, run
        self._batch = run.evaluation_batch if takes_any_batch(ground.source) else 1
        self._outputs = [name_of(v) for v in ground.source.outputs]
        self._reference = _CachedReference(session_engine(open_float_session(ground, run)))

    def quantize(self, floats: Mapping[str, str]) -> QuantizedModel:
        """The model with these nodes left float."""
        recipe = self.recipe.with_float_nodes(floats)
        return apply_plan(self.ground, recipe, solve_plan(self.ground, recipe))

    def measure(self, graph: Graph) -> tuple[Drop, float]:
        """What a quantized model loses, and its signal over error in decibels."""
        self.count += 1
        engine = session_engine(Session(graph, threads=self._run.threads))
        result = evaluate_engines(
            self._reference.restart(), {"int8": engine}, self.samples, self._outputs,
            batch=self._batch, metric=self._metric,
        )  # fmt: skip
        form = result.forms["int8"]
        assert form.drop is not None
        return form.drop, form.outputs[result.head].sqnr_db


class _CachedReference:
    """An engine that runs each feed of a fixed sequence once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: list[list[NDArray[Any]]] = []

    def restart(self) -> Engine:
        """The engine for the sequence from its beginning."""
        at: Iterator[int] = iter(range(10**9))

        def run(feed: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
            index = next(at)
            if index == len(self._known):
                self._known.append(self._engine(feed))
            return self._known[index]

        return run


def evenly_spread(samples: Sequence[Sample]) -> list[Sample]:
    """As many samples as errors are weighed on, evenly spread."""
    count = min(SAMPLES, len(samples))
    return [samples[k * len(samples) // count] for k in range(count)]


def fewest_float_nodes(
    trials: Trials,
    points: float,
    *,
    run: RunOptions = DEFAULT_RUN,
    advance: Callable[[], None] = lambda: None,
) -> BudgetSearch:
    """Find the fewest nodes to leave float.

    Args:
        trials: What is quantized, and on which samples it is measured.
        points: The greatest drop, in points of the metric.
        run: How the job runs.
        advance: Called after each step.

    Raises:
        ModelError: ONNX Runtime does not take a model.
        DataError: The model fails on a sample.
    """
    plain = trials.quantize({})
    without, _ = trials.measure(plain.quantized_graph)
    advance()
    samples = len(trials.samples)
    if without.points <= points:
        return BudgetSearch(points, True, without, without, samples, True, {}, trials.count)
    parts = error_sources_of(plain, logits_graph(trials.ground.prepared.graph))
    if not parts.sources:
        return BudgetSearch(points, False, without, without, samples, True, {}, trials.count)
    found = attribute_error(parts, evenly_spread(trials.samples), run=run, advance=advance)
    rounding = {
        parts.fused.get(n, frozenset([n])) for s in parts.sources for n in s.float_nodes_needed
    }
    most, cost = int(MAX_FLOAT_SHARE * len(rounding)), time_cost(float_time_model(plain))
    attempts = _MeasuredDrops(trials, max(float(found.mean_shares.sum()), math.ulp(0.0)), advance)

    def number(more: frozenset[str], floats: frozenset[str]) -> float:
        return float(len(more))

    for price in (cost, number):
        moves = greedy_candidates(
            found.sources,
            found.mean_shares,
            price,
            lambda nodes: count_fused_as_one(nodes, parts.fused) <= most,
        )
        chosen = _shortest_within_budget(attempts, moves, points)
        if chosen is not None:
            break
    reached = chosen is not None
    if chosen is None:
        chosen = min(attempts.known, key=lambda c: (attempts.known[c].points, len(c)), default=())
    else:
        dearest = sorted(chosen, key=lambda move: -cost(move.nodes, frozenset()))
        for one in dearest[: REMOVALS_TRIED if len(chosen) > 1 else 0]:
            fewer = tuple(move for move in chosen if move is not one)
            if fewer and attempts.measure_drop(fewer).points <= points:
                chosen = fewer
    return BudgetSearch(
        points=points,
        reached=reached,
        drop=attempts.known.get(chosen, without),
        without=without,
        samples=samples,
        apart=True,
        floats=attempts.float_nodes(chosen),
        measurements=trials.count,
        estimates=found.runs,
        sources=len(found.sources),
    )


_Candidates = tuple[FloatCandidate, ...]


class _MeasuredDrops:
    """Drops by the moves that were made."""

    def __init__(self, trials: Trials, total: float, advance: Callable[[], None]) -> None:
        self._trials, self._total, self._advance = trials, total, advance
        self.known: dict[_Candidates, Drop] = {}

    def measure_drop(self, chosen: _Candidates) -> Drop:
        if chosen not in self.known:
            made = self._trials.quantize(self.float_nodes(chosen))
            self.known[chosen], _ = self._trials.measure(made.quantized_graph)
            self._advance()
        return self.known[chosen]

    def float_nodes(self, chosen: _Candidates) -> dict[str, str]:
        """The moves' nodes, each with the reason."""
        said = {}
        for move in chosen:
            what = (
                f"the rounded constants of {move.source.node}"
                if move.source.kind == "weights"
                else f"rounding {move.source.tensor}"
            )
            part = f"{100 * move.error_share / self._total:.0f} % of the output's error (estimated)"
            said.update(dict.fromkeys(sorted(move.nodes), f"{REASON_PREFIX}{what} makes {part}"))
        return said


def _shortest_within_budget(
    attempts: _MeasuredDrops, moves: Iterator[FloatCandidate], points: float
) -> _Candidates | None:
    """The shortest beginning of the moves that is within the budget, found by doubling and halving."""
    made, below, size = list[FloatCandidate](), 0, 1
    while True:
        made += itertools.islice(moves, size - len(made))
        size = min(size, len(made))
        if size <= below:
            return None
        if attempts.measure_drop((*made[:size],)).points <= points:
            break
        below, size = size, 2 * size
    while size - below > 1:
        middle = (below + size) // 2
        if attempts.measure_drop((*made[:middle],)).points <= points:
            size = middle
        else:
            below = middle
    return (*made[:size],)
