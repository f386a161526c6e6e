"""Search for the fewest float nodes with which a model meets an accuracy budget.

1. Error attribution estimates what each rounding costs. Nodes are ordered by gain for the time that they cost.
2. The search measures the first 1, 2, 4, … of them, then bisects.
3. If half of the nodes are not enough, it tries the order by gain for each node.
4. Some nodes are removed again if the budget still holds.

On a target that also computes activations of 16 bits, nodes get these in place of float. Only if that does not meet
the budget, float nodes are searched for.

Every measurement quantizes the model again and runs it on samples that did not choose any range.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from ptq.core.errors import UsageError
from ptq.core.run_options import RunOptions
from ptq.core.stages import SEARCHING
from ptq.core.targets import get_target
from ptq.data.splits import SampleSplit
from ptq.evaluation.budget import BudgetSearch
from ptq.evaluation.drop import Drop
from ptq.evaluation.tasks.task import NO_LABELS, TaskLabels, TaskName
from ptq.evaluation.user_metric import Metric
from ptq.model.random_nodes import find_random_nodes
from ptq.optimization.job import Job
from ptq.optimization.mixed_precision.attribution.error_attribution import attribute_error
from ptq.optimization.mixed_precision.attribution.error_injection import ErrorInjector
from ptq.optimization.mixed_precision.attribution.float_candidates import (
    FloatCandidate,
    count_fused_as_one,
    list_greedy_candidates,
)
from ptq.optimization.mixed_precision.attribution.float_cost import (
    build_float_time_model,
    make_time_cost,
)
from ptq.optimization.mixed_precision.attribution.float_reasons import describe_source
from ptq.optimization.mixed_precision.attribution.quantized_sources import (
    build_quantized_error_probe,
)
from ptq.optimization.mixed_precision.float_trials import MAX_SAMPLES, Trials, select_evenly
from ptq.rewrite.instrument.logits import build_logits_graph
from ptq.solver.quantizer import CalibratedModel, Draft
from ptq.solver.recipe import Recipe

MAX_FLOAT_SHARE = 0.5
"""The highest share of the quantized nodes that may stay float."""
REMOVALS_TRIED = 6
"""Candidates that are removed again on trial, at the end."""
REASON_PREFIX = "accuracy budget: "


def search_for_budget(
    model: CalibratedModel,
    recipe: Recipe,
    split: SampleSplit,
    points: float,
    *,
    metric: Metric | None,
    task: TaskName | None,
    labels: TaskLabels,
    run: RunOptions,
) -> BudgetSearch:
    """Find the fewest float nodes that meet the budget, on the samples that are reserved for the search.

    Args:
        model: The float model and its statistics.
        recipe: How to quantize it; its float nodes stay float.
        split: The samples.
        points: The highest allowed drop, in points of the metric.
        metric: The user's metric; None for that of the task.
        task: What the outputs decide; None to recognize it.
        labels: Labels of boxes or texts of the evaluation samples; they count if the search uses these.
        run: How the job runs.

    Raises:
        UsageError: There are no samples, or the budget is not a number of at least 0.
        ModelError: ONNX Runtime does not take a model.
        DataError: A sample is bad, or the model fails on it.
    """
    if not points >= 0:
        raise UsageError(f"invalid max_drop {points}; give 0 points or more")
    if split.search is None:
        raise UsageError("`max_drop` needs samples; give `data` or `eval_data`")
    samples = list(run.track(split.search.spread(MAX_SAMPLES), "reading samples to search on"))
    own = labels if split.search is split.evaluation else NO_LABELS
    trials = Trials(model, recipe, samples, metric=metric, task=task, labels=own, run=run)
    advance = run.start_stage(SEARCHING, None)
    wide = get_target(recipe.target).wide_activation is not None
    found = find_fewest_float_nodes(trials, points, wide=wide, run=run, advance=advance)
    if wide and not found.reached:
        other = find_fewest_float_nodes(trials, points, run=run, advance=advance)
        found = other if other.reached or other.drop.points < found.drop.points else found
    advance.end()
    return replace(found, apart=split.search is not split.evaluation)


def search_within_budget(
    job: Job, model: CalibratedModel, draft: Draft, labels: TaskLabels
) -> tuple[Draft, BudgetSearch | None]:
    """The draft with the nodes that have to stay float for the budget.

    It is unchanged without a budget, with a plan, and if the model draws random numbers: measurements are noise then.

    Returns:
        The draft; the search, None where there was none.

    Raises:
        UsageError: The budget is not a number of at least 0.
        DataError: A sample is bad, or the model fails on it.
    """
    points = job.options.max_drop
    if points is None or job.given.plan is not None or find_random_nodes(job.prepared.graph):
        return draft, None
    found = search_for_budget(
        model,
        draft.recipe,
        job.samples,
        points,
        metric=job.options.metric,
        task=job.options.task,
        labels=labels,
        run=job.run,
    )
    if found.wide:
        return Draft(draft.recipe.with_wide_nodes(found.floats)), found
    return Draft(draft.recipe.with_float_nodes(found.floats)), found


def find_fewest_float_nodes(
    trials: Trials,
    points: float,
    *,
    wide: bool = False,
    run: RunOptions,
    advance: Callable[[], None] = lambda: None,
) -> BudgetSearch:
    """Find the fewest float nodes that meet the budget.

    Args:
        trials: Quantizes and measures.
        points: The highest allowed drop, in points of the metric.
        wide: Search for nodes whose activations have 16 bits, in place of float nodes.
        run: How the job runs.
        advance: Called after each measurement and each sample of error attribution.

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
    probe = build_quantized_error_probe(plain, build_logits_graph(trials.model.prepared.graph))
    if not probe.sources:
        return BudgetSearch(points, False, without, without, samples, True, {}, trials.count)
    found = attribute_error(
        ErrorInjector(probe, run), select_evenly(trials.samples), advance=advance
    )
    rounding = {
        probe.fused.get(n, frozenset([n])) for s in probe.sources for n in s.float_nodes_needed
    }
    most, cost = int(MAX_FLOAT_SHARE * len(rounding)), make_time_cost(build_float_time_model(plain))
    drops = _MeasuredDrops(
        trials, max(float(found.mean_shares.sum()), math.ulp(0.0)), advance, wide=wide
    )
    # more bits for activations leave the error of weights as it is
    chosen_sources = [n for n, s in enumerate(found.sources) if not wide or s.kind == "tensor"]
    sources = [found.sources[n] for n in chosen_sources]

    def node_count(more: frozenset[str], _: frozenset[str]) -> float:
        return float(len(more))

    for price in (cost, node_count):
        candidates = list_greedy_candidates(
            sources,
            found.mean_shares[chosen_sources],
            price,
            lambda nodes: count_fused_as_one(nodes, probe.fused) <= most,
        )
        chosen = _find_shortest_within_budget(drops, candidates, points)
        if chosen is not None:
            break
    reached = chosen is not None
    if chosen is None:
        chosen = min(drops.known, key=lambda c: (drops.known[c].points, len(c)), default=())
    else:
        by_cost = sorted(chosen, key=lambda candidate: -cost(candidate.nodes, frozenset()))
        for one in by_cost[: REMOVALS_TRIED if len(chosen) > 1 else 0]:
            fewer = tuple(candidate for candidate in chosen if candidate is not one)
            if fewer and drops.measure_drop(fewer).points <= points:
                chosen = fewer
    return BudgetSearch(
        points=points,
        reached=reached,
        drop=drops.known.get(chosen, without),
        without=without,
        samples=samples,
        apart=True,
        floats=drops.float_nodes(chosen),
        measurements=trials.count,
        estimates=found.runs,
        sources=len(found.sources),
        wide=wide,
    )


_Candidates = tuple[FloatCandidate, ...]


class _MeasuredDrops:
    """Measures the drop of each choice of candidates once.

    Attributes:
        known: The measured drops.
    """

    def __init__(
        self, trials: Trials, total: float, advance: Callable[[], None], *, wide: bool
    ) -> None:
        """``total`` is the error share of all sources; ``advance`` is called after each measurement."""
        self._trials, self._total, self._advance = trials, total, advance
        self._wide = wide
        self.known: dict[_Candidates, Drop] = {}

    def measure_drop(self, chosen: _Candidates) -> Drop:
        """The accuracy drop with the candidates' nodes in float."""
        if chosen not in self.known:
            made = self._trials.quantize(self.float_nodes(chosen), wide=self._wide)
            self.known[chosen], _ = self._trials.measure(made.quantized_graph)
            self._advance()
        return self.known[chosen]

    def float_nodes(self, chosen: _Candidates) -> dict[str, str]:
        """The nodes of the candidates, each with the reason to stay float."""
        reasons = {}
        for candidate in chosen:
            share = candidate.error_share / self._total
            reason = REASON_PREFIX + describe_source(candidate.source, share)
            reasons.update(dict.fromkeys(sorted(candidate.nodes), reason))
        return reasons


def _find_shortest_within_budget(
    drops: _MeasuredDrops, candidates: Iterator[FloatCandidate], points: float
) -> _Candidates | None:
    """The shortest prefix of the candidates that meets the budget, by doubling and bisection; None if none does."""
    taken, below, size = list[FloatCandidate](), 0, 1
    while True:
        taken += itertools.islice(candidates, size - len(taken))
        size = min(size, len(taken))
        if size <= below:
            return None
        if drops.measure_drop((*taken[:size],)).points <= points:
            break
        below, size = size, 2 * size
    while size - below > 1:
        middle = (below + size) // 2
        if drops.measure_drop((*taken[:middle],)).points <= points:
            size = middle
        else:
            below = middle
    return (*taken[:size],)
