"""What would leaving each node float win? Estimated for all of them, measured for the first few.

ranking = ptq.sensitivity("model.onnx", "images/")
print(ranking.nodes[0].node, ranking.nodes[0].measured_db)
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace

from ptq.calibration.calibration import collect_in_folds
from ptq.calibration.input_covariance import collect_input_covariance
from ptq.core.errors import UsageError
from ptq.core.targets import get_target as target_named
from ptq.data import DataSource, Preprocess
from ptq.data.progress import Progress, start_progress, with_progress
from ptq.data.splits import SampleOptions, split_samples
from ptq.evaluation.drop import Drop
from ptq.evaluation.ranking import NodeCost, Ranking
from ptq.evaluation.user_metric import Metric
from ptq.model.node import operator_of
from ptq.model.open import Model, display_name
from ptq.optimization.before_calibration import optimize_before_calibration
from ptq.optimization.mixed_precision.budget_search import MAX_SAMPLES, Trials, evenly_spread
from ptq.optimization.mixed_precision.error_attribution import ErrorAttribution, attribute_error
from ptq.optimization.mixed_precision.float_candidates import FloatCandidate, rank_candidates
from ptq.optimization.mixed_precision.float_cost import error_sources_of
from ptq.optimization.range_search import choose_ranges
from ptq.rewrite.instrument.logits import logits_graph
from ptq.rewrite.prepare.prepare import open_and_prepare
from ptq.solver.quantizer import CalibratedModel, solve_plan
from ptq.solver.recipe import DEFAULT_METHOD, Recipe, resolve_weight_format
from ptq.solver.solve import SKIPPED_REASON

DEFAULT_MEASURED = 5
REASON = "to measure its sensitivity"


def sensitivity(
    model: Model,
    data: DataSource,
    *,
    eval_data: DataSource | None = None,
    target: str = "ort",
    method: str = DEFAULT_METHOD,
    per_tensor: bool = False,
    equalize: bool = True,
    skip: Collection[str] = (),
    measure: int = DEFAULT_MEASURED,
    metric: Metric | None = None,
    preprocess: Preprocess | None = None,
    samples: int | None = None,
    skip_bad_samples: bool = False,
    batch: int = 8,
    threads: int = 0,
    progress: Progress | None = None,
) -> Ranking:
    """Rank a model's nodes by what leaving each float would win.

    Args:
        model: A float model.
        data: Calibration samples; a fifth is held out to measure on.
        eval_data: Samples to measure on instead.
        target: What to quantize for.
        method: How ranges are chosen.
        per_tensor: One scale for a whole weight.
        equalize: Make the channels between layers alike where that gains.
        skip: Nodes, or operators, that stay float anyway.
        measure: How many of the first are measured; each quantizes and runs two models.
        metric: What drops are counted in, as for ``quantize``.
        preprocess: How images become arrays.
        samples: Use that many samples of ``data``, evenly spread.
        skip_bad_samples: Leave unreadable samples out instead of stopping.
        batch: Samples that run at once, if the model takes any number.
        threads: Threads for one operator; 0 is one a core.
        progress: Told how far it is.

    Raises:
        ModelError: The model cannot be read, prepared or run.
        DataError: A sample is missing, unreadable or does not fit.
        UsageError: An option makes no sense, or nothing of the model is quantized.
    """
    row = target_named(target)
    graph, prepared = open_and_prepare(model)
    choice = SampleOptions(preprocess, samples, skip_bad_samples)
    labels = metric is None
    divided = split_samples(prepared.graph, data, eval_data, choice, search=True, labels=labels)
    assert divided.calibration is not None
    assert divided.search is not None
    recipe = Recipe(
        row.name, method, per_tensor=per_tensor, float_nodes=dict.fromkeys(skip, SKIPPED_REASON),
        weights=resolve_weight_format("auto", row),
    )  # fmt: skip
    prepared, recipe = optimize_before_calibration(
        display_name(model), prepared, divided.calibration, recipe,
        equalize=equalize, threads=threads, progress=progress,
    )  # fmt: skip
    calibration, folds = collect_in_folds(
        prepared.graph, divided.calibration, threads=threads, progress=progress
    )
    ground = CalibratedModel(display_name(model), graph, prepared, calibration)
    recipe = choose_ranges(ground, recipe, folds, threads=threads, progress=progress)
    plan = solve_plan(ground, recipe)
    ground = collect_input_covariance(ground, plan, divided.calibration, threads, progress)
    held = list(
        with_progress(divided.search.spread(MAX_SAMPLES), "reading samples to measure on", progress)
    )
    trials = Trials(ground, recipe, held, metric=metric, batch=batch, threads=threads)
    made = trials.quantize({})
    drop, sqnr_db = trials.measure(made.quantized_graph)
    probe = error_sources_of(made, logits_graph(prepared.graph))
    if not probe.sources:
        raise UsageError("nothing of the model is quantized; `ptq inspect` says why")
    advance = start_progress("weighing", None, progress)
    found = attribute_error(probe, evenly_spread(held), threads=threads, advance=advance)
    ops = {node.name or "": operator_of(node) for node in prepared.graph.nodes}
    rows, before = [], frozenset[str]()
    moves = rank_candidates(found.sources, found.mean_shares)
    advance = start_progress("measuring", min(measure, len(moves)), progress)
    for index, move in enumerate(moves):
        cost = _node_cost(move, found, ops)
        if index < measure:
            now, won = _measure_gain(move.nodes, trials, sqnr_db)
            before |= move.nodes
            together = won if before == move.nodes else _measure_gain(before, trials, sqnr_db)[1]
            points = drop.points - now.points
            cost = replace(cost, measured_db=won, measured_points=points, together_db=together)
            advance()
        rows.append(cost)
    return Ranking(
        model=display_name(model),
        target=row.name,
        samples=len(held),
        sqnr_db=sqnr_db,
        drop=drop,
        estimated_on=found.samples,
        runs=found.runs,
        measurements=trials.count,
        sources=len(found.sources),
        nodes=tuple(rows),
    )


def _node_cost(move: FloatCandidate, found: ErrorAttribution, ops: dict[str, str]) -> NodeCost:
    total = float(found.mean_shares.sum())
    share = move.error_share / total if total else 0.0
    return NodeCost(
        node=move.main_node,
        op=ops.get(move.main_node, ""),
        along=tuple(name for name in ops if name in move.nodes and name != move.main_node),
        rounds="weights" if move.source.kind == "weights" else move.source.tensor,
        share=share,
        alone=bool(found.measured_alone[found.sources.index(move.source)]),
        won_db=-10 * math.log10(1 - share) if share < 1 else math.inf,
    )


def _measure_gain(nodes: frozenset[str], trials: Trials, before: float) -> tuple[Drop, float]:
    """What is lost with the nodes float, and the decibels that it wins."""
    made = trials.quantize(dict.fromkeys(sorted(nodes), REASON))
    drop, after = trials.measure(made.quantized_graph)
    return drop, 0.0 if after == before else after - before
