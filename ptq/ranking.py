"""What would leaving each node float win? Estimated for all of them, measured for the first few.

ranking = ptq.sensitivity("model.onnx", "images/")
print(ranking.nodes[0].node, ranking.nodes[0].measured_db)
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

from ptq.accuracy.drop import Drop
from ptq.accuracy.usermetric import Metric
from ptq.data import DataSource, Preprocess
from ptq.errors import UsageError
from ptq.feeding import Choice, Progress, begun, parts, told
from ptq.gather import gathered_in_folds
from ptq.models import Model, called
from ptq.moves import Move, ranked
from ptq.nodes import operator
from ptq.pipeline import DEFAULT_METHOD, Ground, Recipe, planned, weights_for, with_inputs
from ptq.ready import made_ready
from ptq.rewrite.scores import scores
from ptq.search import MOST, Trials, some
from ptq.solve import SKIPPED
from ptq.sources import apart
from ptq.targets import target as target_named
from ptq.trials.beforehand import rewritten
from ptq.trials.downstream import with_ranges
from ptq.weighing import Weighed, weighed

MEASURED = 5
REASON = "to measure its sensitivity"


@dataclass(frozen=True)
class NodeCost:
    """What leaving a node float would win.

    Attributes:
        node: Its name.
        op: Its operator.
        along: The nodes that have to stay float with it, or the rounding is only moved.
        rounds: What it rounds most dearly: ``weights``, or the name of a tensor.
        share: The share of the outputs' error that vanishes, 0 to 1; estimated.
        alone: Whether what it rounds was run alone; without, the estimate is an equal part of a group's.
        won_db: What that is in decibels of signal over error.
        measured_db: The same, measured on a model with these nodes float; None where it was not.
        measured_points: Points of the metric won by it, likewise.
        together_db: Decibels won with the nodes of all entries before it float too, likewise; errors that are
            one and the same, rounded twice, vanish only together.
    """

    node: str
    op: str
    along: tuple[str, ...]
    rounds: str
    share: float
    alone: bool
    won_db: float
    measured_db: float | None = None
    measured_points: float | None = None
    together_db: float | None = None


@dataclass(frozen=True)
class Ranking:
    """Nodes by what leaving them float would win.

    Attributes:
        model: Path or name.
        target: Name of the target.
        samples: How many everything is measured on; no range is chosen on them, unless there are too few.
        sqnr_db: Signal over error of the quantized model there.
        drop: What it loses there.
        estimated_on: How many of them the estimates are made on.
        runs: How often the float model was run on each of those, at most a hundred or so times.
        measurements: How many quantized models were run on all.
        sources: Places where something is rounded: so many runs would measure each of them.
        nodes: Most won first, as estimated.
    """

    model: str
    target: str
    samples: int
    sqnr_db: float
    drop: Drop
    estimated_on: int
    runs: int
    measurements: int
    sources: int
    nodes: tuple[NodeCost, ...]


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
    measure: int = MEASURED,
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
    graph, prepared = made_ready(model)
    choice = Choice(preprocess, samples, skip_bad_samples)
    labels = metric is None
    divided = parts(prepared.graph, data, eval_data, choice, search=True, labels=labels)
    assert divided.calibration is not None
    assert divided.search is not None
    recipe = Recipe(
        row.name, method, per_tensor=per_tensor, floats=dict.fromkeys(skip, SKIPPED),
        weights=weights_for("auto", row),
    )  # fmt: skip
    prepared, recipe = rewritten(
        called(model), prepared, divided.calibration, recipe,
        equalize=equalize, threads=threads, progress=progress,
    )  # fmt: skip
    calibration, folds = gathered_in_folds(
        prepared.graph, divided.calibration, threads=threads, progress=progress
    )
    ground = Ground(called(model), graph, prepared, calibration)
    recipe = with_ranges(ground, recipe, folds, threads=threads, progress=progress)
    plan = planned(ground, recipe)
    ground = with_inputs(ground, plan, divided.calibration, threads, progress)
    held = list(told(divided.search.spread(MOST), "reading samples to measure on", progress))
    trials = Trials(ground, recipe, held, metric=metric, batch=batch, threads=threads)
    made = trials.quantized({})
    drop, sqnr_db = trials.measured(made.quantized)
    probe = apart(made, scores(prepared.graph))
    if not probe.sources:
        raise UsageError("nothing of the model is quantized; `ptq inspect` says why")
    advance = begun("weighing", None, progress)
    found = weighed(probe, some(held), threads=threads, advance=advance)
    ops = {node.name or "": operator(node) for node in prepared.graph.nodes}
    rows, before = [], frozenset[str]()
    moves = ranked(found.sources, found.mean)
    advance = begun("measuring", min(measure, len(moves)), progress)
    for index, move in enumerate(moves):
        cost = _cost(move, found, ops)
        if index < measure:
            now, won = _won(move.nodes, trials, sqnr_db)
            before |= move.nodes
            together = won if before == move.nodes else _won(before, trials, sqnr_db)[1]
            points = drop.points - now.points
            cost = replace(cost, measured_db=won, measured_points=points, together_db=together)
            advance()
        rows.append(cost)
    return Ranking(
        model=called(model),
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


def _cost(move: Move, found: Weighed, ops: dict[str, str]) -> NodeCost:
    total = float(found.mean.sum())
    share = move.share / total if total else 0.0
    return NodeCost(
        node=move.leader,
        op=ops.get(move.leader, ""),
        along=tuple(name for name in ops if name in move.nodes and name != move.leader),
        rounds="weights" if move.source.kind == "weights" else move.source.tensor,
        share=share,
        alone=bool(found.alone[found.sources.index(move.source)]),
        won_db=-10 * math.log10(1 - share) if share < 1 else math.inf,
    )


def _won(nodes: frozenset[str], trials: Trials, before: float) -> tuple[Drop, float]:
    """What is lost with the nodes float, and the decibels that it wins."""
    made = trials.quantized(dict.fromkeys(sorted(nodes), REASON))
    drop, after = trials.measured(made.quantized)
    return drop, 0.0 if after == before else after - before
