"""Sensitivity: nodes ranked by the accuracy regained when each stays in float.

The gain is estimated for all nodes, and measured for the first few.

ranking = ptq.sensitivity("model.onnx", "images/")
print(ranking.nodes[0].node, ranking.nodes[0].measured_db)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ptq.core.decibels import to_error_db
from ptq.core.errors import UsageError
from ptq.core.option_checks import refuse_unknown_options, require_count
from ptq.core.run_options import DEFAULT_RUN, Progress, RunOptions
from ptq.core.targets import TargetName
from ptq.data import DataSource, Preparation
from ptq.data.sample_store import CacheOption
from ptq.data.splits import SampleOptions
from ptq.data.workers.cluster_adapters import Cluster
from ptq.data.workers.start_workers import resolve_data, start_workers, stop_workers_at_end
from ptq.evaluation.checks.input_shift_check import InputShiftCheck, summarize_calibration_inputs
from ptq.evaluation.checks.mode_check import check_mode
from ptq.evaluation.checks.noise_check import check_noise
from ptq.evaluation.checks.preprocessing_check import diagnose_assumption, explain_low_accuracy
from ptq.evaluation.drop import Drop
from ptq.evaluation.early_task import require_fitting_task
from ptq.evaluation.ranking import NodeCost, Ranking
from ptq.evaluation.tasks.task import TaskName, TaskRequest
from ptq.evaluation.user_metric import Metric
from ptq.kernels.thread_pool import use_given_threads
from ptq.model.node import get_operator
from ptq.model.open import Model
from ptq.optimization.job import open_job
from ptq.optimization.mixed_precision.attribution.error_attribution import (
    ErrorAttribution,
    attribute_error,
)
from ptq.optimization.mixed_precision.attribution.error_injection import ErrorInjector
from ptq.optimization.mixed_precision.attribution.float_candidates import (
    FloatCandidate,
    rank_candidates,
)
from ptq.optimization.mixed_precision.attribution.quantized_sources import (
    build_quantized_error_probe,
)
from ptq.optimization.mixed_precision.float_trials import (
    MAX_SAMPLES,
    Trials,
    drop_and_sqnr,
    select_evenly,
)
from ptq.optimization.options import QuantizeOptions
from ptq.optimization.pipeline import prepare_draft
from ptq.rewrite.instrument.logits import build_logits_graph
from ptq.rewrite.prepare.prepare import OpsetOption
from ptq.solver.recipe import DEFAULT_METHOD, MethodName

DEFAULT_MEASURED = 5
REASON = "to measure its sensitivity"


@refuse_unknown_options
@stop_workers_at_end
@use_given_threads
def sensitivity(
    model: Model,
    data: DataSource,
    *,
    eval_data: DataSource | None = None,
    target: TargetName = "ort",
    method: MethodName = DEFAULT_METHOD,
    per_tensor: bool = False,
    equalize: bool = True,
    skip: Collection[str] | str = (),
    measure: int = DEFAULT_MEASURED,
    metric: Metric | None = None,
    task: TaskName | None = None,
    opset: OpsetOption = "auto",
    preprocess: Preparation | None = None,
    samples: int | None = None,
    skip_bad_samples: bool = False,
    cache: CacheOption | None = None,
    batch: int = DEFAULT_RUN.evaluation_batch,
    threads: int = 0,
    workers: int = 1,
    cluster: Cluster | None = None,
    progress: Progress | None = None,
) -> Ranking:
    """Rank the nodes of a model by the accuracy regained when each stays in float.

    Args:
        model: A float model.
        data: Calibration samples; a fifth is held out to measure on.
        eval_data: Samples to measure on instead.
        target: The name of the runtime.
        method: The range method, as for ``quantize``.
        per_tensor: Use one scale for a whole weight.
        equalize: Equalize channels between layers if held-out samples improve.
        skip: Nodes, or operators, that stay float anyway.
        measure: How many of the first nodes are measured; each quantizes and runs two models.
        metric: The metric of accuracy drops, as for ``quantize``.
        task: What the outputs decide, as for ``quantize``.
        opset: ``keep`` or ``auto``, as for ``quantize``.
        preprocess: How images, audio or text become arrays.
        samples: Use that many samples of ``data``, evenly spread.
        skip_bad_samples: Leave unreadable samples out instead of stopping.
        cache: Where samples are kept on disk between passes, a folder or a size; see `ptq.data.open_samples`.
        batch: Samples that run at once, if the model takes any number.
        threads: Threads of ONNX Runtime, and of ptq itself; 0 is one for each core, or with workers one.
        workers: Processes for samples, this one included; see `ptq.data.workers.worker_pool`. The result is the same.
        cluster: Workers elsewhere in place of processes, as for ``calibrate``. The result is the same.
        progress: Called with each stage and its number of steps; see `ptq.core.run_options.Progress`.

    Raises:
        ModelError: The model cannot be read, prepared or run.
        DataError: A sample is missing, unreadable or does not fit.
        UsageError: An option makes no sense, or nothing of the model is quantized.
        Cancelled: The progress callback returned False or raised an exception.
    """
    options = QuantizeOptions(
        target, method, per_tensor=per_tensor, skip=skip, equalize=equalize, metric=metric, task=task, opset=opset,
    )  # fmt: skip
    options.check_target()
    measure = require_count("measure", measure)
    reading = SampleOptions(preprocess, samples, skip_bad_samples, cache=cache)
    run = start_workers(
        RunOptions(threads=threads, evaluation_batch=batch, progress=progress), workers, cluster
    )
    data, eval_data = resolve_data(data, cluster), resolve_data(eval_data, cluster)
    job = open_job(model, data, eval_data, reading, options, run, search=True)
    assert job.samples.search is not None
    chosen = job.samples.search.spread(MAX_SAMPLES)
    require_fitting_task(job.source, chosen, TaskRequest.from_graph(task, job.source), run)
    job, calibrated, draft = prepare_draft(job)
    recipe = draft.recipe
    shift = InputShiftCheck(summarize_calibration_inputs(calibrated))
    held_out = list(run.track(chosen, "reading samples to measure on"))
    for sample in held_out:
        shift.add(sample)
    trials = Trials(
        calibrated,
        recipe,
        held_out,
        metric=metric,
        task=task,
        labelling=lambda: chosen.labelling,
        run=run,
    )
    made = trials.quantize({})
    evaluation = trials.evaluate(made.quantized_graph)
    drop, sqnr_db = drop_and_sqnr(evaluation)
    doubts = explain_low_accuracy(evaluation, chosen, trials.outputs, lambda: trials.engine)
    probe = build_quantized_error_probe(made, build_logits_graph(job.prepared.graph))
    if not probe.sources:
        raise UsageError("no node of the model is quantized; `ptq.inspect` gives the reasons")
    advance = run.start_stage("attributing the error", None)
    found = attribute_error(ErrorInjector(probe, run), select_evenly(held_out), advance=advance)
    advance.end()
    ops = {node.name or "": get_operator(node) for node in job.prepared.graph.nodes}
    candidates = rank_candidates(found.sources, found.mean_shares)
    costs = [_build_node_cost(candidate, found, ops) for candidate in candidates]
    first = _measure_costs(candidates[:measure], costs, trials, drop, sqnr_db, run)
    return Ranking(
        model=job.name,
        target=recipe.target,
        samples=len(held_out),
        sqnr_db=sqnr_db,
        drop=drop,
        estimated_on=found.samples,
        runs=found.runs,
        measurements=trials.count,
        sources=len(found.sources),
        nodes=(*first, *costs[len(first) :]),
        applied_preprocess=(
            None
            if job.samples.calibration is None
            else reading.describe(job.samples.calibration, job.prepared.graph)
        ),
        labels=evaluation.labels,
        task=evaluation.task,
        suspects=(
            *check_noise(job.prepared.graph),
            *check_mode(job.source),
            *doubts,
            *shift.find(),
            *diagnose_assumption(job.samples.calibration),
        ),
    )


def _build_node_cost(
    candidate: FloatCandidate, found: ErrorAttribution, ops: dict[str, str]
) -> NodeCost:
    total, node = float(found.mean_shares.sum()), candidate.main_node
    share = candidate.error_share / total if total else 0.0
    return NodeCost(
        node=node,
        op=ops.get(node, ""),
        along=tuple(name for name in ops if name in candidate.nodes and name != node),
        rounds="weights" if candidate.source.kind == "weights" else candidate.source.tensor,
        share=share,
        alone=bool(found.measured_alone[found.sources.index(candidate.source)]),
        won_db=-to_error_db(1 - share),
    )


def _measure_costs(
    candidates: Sequence[FloatCandidate],
    costs: Sequence[NodeCost],
    trials: Trials,
    drop: Drop,
    sqnr_db: float,
    run: RunOptions,
) -> list[NodeCost]:
    """The costs of the candidates with their gains measured: of each alone, and with all before it.

    Args:
        candidates: The first candidates, which are measured.
        costs: Their estimated costs, in the same order; more may follow.
        trials: What quantizes and measures.
        drop: The drop without float nodes.
        sqnr_db: The SQNR without float nodes.
        run: How the job runs.
    """
    rows, before = [], frozenset[str]()
    advance = run.start_stage("measuring", len(candidates))
    for candidate, cost in zip(candidates, costs, strict=False):
        now, gain = _measure_gain(candidate.nodes, trials, sqnr_db)
        before |= candidate.nodes
        alone = before == candidate.nodes
        together = gain if alone else _measure_gain(before, trials, sqnr_db)[1]
        points = drop.points - now.points
        rows.append(replace(cost, measured_db=gain, measured_points=points, together_db=together))
        advance()
    return rows


def _measure_gain(nodes: frozenset[str], trials: Trials, before: float) -> tuple[Drop, float]:
    """The accuracy drop with the nodes in float, and the gain of SQNR in decibels."""
    made = trials.quantize(dict.fromkeys(sorted(nodes), REASON))
    drop, after = trials.measure(made.quantized_graph)
    return drop, 0.0 if after == before else after - before
