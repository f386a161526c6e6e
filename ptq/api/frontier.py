"""`ptq.frontier`: every trade of speed against error, estimated for all points and measured for a few.

curve = ptq.frontier("model.onnx", "images/")
result = ptq.quantize("model.onnx", "images/", plan=curve.plans[3], stats=curve.calibration)
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace

from ptq.api.applied_preprocess import find_preprocess
from ptq.api.saved_frontier import Frontier
from ptq.core.errors import UsageError
from ptq.core.option_checks import refuse_unknown_options, require_choice, require_flag
from ptq.core.run_options import DEFAULT_RUN, Progress, RunOptions
from ptq.core.targets import TargetName, get_target
from ptq.data import DataSource, Preparation, Sample
from ptq.data.sample_store import CacheOption
from ptq.data.splits import SampleOptions
from ptq.evaluation.checks.mode_check import check_mode
from ptq.evaluation.checks.noise_check import check_noise
from ptq.evaluation.checks.preprocessing_check import diagnose_assumption
from ptq.evaluation.frontier import FrontierReport
from ptq.evaluation.runs.session_cache import SessionCache
from ptq.evaluation.speed import measure_speed
from ptq.kernels.thread_pool import use_given_threads
from ptq.model.open import Model
from ptq.model.session.session import Session
from ptq.optimization.effort import DEFAULT_EFFORT, EffortName
from ptq.optimization.job import open_job
from ptq.optimization.mixed_precision.attribution.error_attribution import attribute_error
from ptq.optimization.mixed_precision.attribution.error_injection import ErrorInjector
from ptq.optimization.mixed_precision.attribution.float_cost import (
    build_float_time_model,
    make_time_cost,
)
from ptq.optimization.mixed_precision.attribution.float_reasons import explain_float_nodes
from ptq.optimization.mixed_precision.attribution.quantized_sources import (
    build_quantized_error_probe,
)
from ptq.optimization.mixed_precision.float_trade import FloatTrade
from ptq.optimization.mixed_precision.float_trials import MAX_SAMPLES, Trials, select_evenly
from ptq.optimization.mixed_precision.frontier.frontier_error import FrontierError
from ptq.optimization.mixed_precision.frontier.frontier_estimates import (
    estimate_points,
    list_anchors,
)
from ptq.optimization.mixed_precision.frontier.frontier_points import (
    add_neighbours,
    measure_curve,
    thin_out,
    trace_curve,
)
from ptq.optimization.mixed_precision.knee.decisions import count_decisions
from ptq.optimization.mixed_precision.knee.float_choice import choose_float_set
from ptq.optimization.mixed_precision.knee.knee_frontier import REASON_PREFIX
from ptq.optimization.mixed_precision.model_times import FloatSetTimes
from ptq.optimization.options import QuantizeOptions
from ptq.optimization.pipeline import prepare_draft
from ptq.optimization.preference import DEFAULT_PREFERENCE, PREFERENCES, PreferenceName
from ptq.optimization.self_check.self_check import quantize_and_check
from ptq.solver.partition.cost_table import OrtCostTable
from ptq.solver.partition.cost_table_file import decide_by_given_table
from ptq.solver.partition.shipped_tables import get_cost_table
from ptq.solver.quantizer import QuantizedModel
from ptq.solver.recipe import DEFAULT_METHOD, MethodName

ESTIMATION_SAMPLES, JOINT_SAMPLES = 8, 64
"""Samples that sources are separated on, and on which those that a point leaves are injected together.

Few samples can have most of the error: on fmnist_resnet8 the second was 5 dB off on 8 samples, 0.5 dB on all 102.
"""


@refuse_unknown_options
@decide_by_given_table
@use_given_threads
def frontier(
    model: Model,
    data: DataSource,
    *,
    eval_data: DataSource | None = None,
    target: TargetName = "ort",
    method: MethodName = DEFAULT_METHOD,
    per_tensor: bool = False,
    equalize: bool = True,
    skip: Collection[str] | str = (),
    effort: EffortName = DEFAULT_EFFORT,
    prefer: PreferenceName = DEFAULT_PREFERENCE,
    cost_table: OrtCostTable | str | os.PathLike[str] | None = None,
    measure_all: bool = False,
    preprocess: Preparation | None = None,
    samples: int | None = None,
    skip_bad_samples: bool = False,
    cache: CacheOption | None = None,
    batch: int = DEFAULT_RUN.evaluation_batch,
    threads: int = 0,
    progress: Progress | None = None,
) -> Frontier:
    """Compute which nodes to leave float for each trade of speed against error.

    Args:
        model: A float model.
        data: Calibration samples; a fifth is held out to estimate and measure on.
        eval_data: Samples to estimate and measure on instead.
        target: The name of the runtime; it needs a table of measured times.
        method: The range method, as for ``quantize``.
        per_tensor: Use one scale for a whole weight.
        equalize: Equalize channels between layers if held-out samples improve.
        skip: Nodes, or operators, that stay float anyway.
        effort: How many samples and runs each decision may take, as for ``quantize``.
        prefer: The rule that chooses a point.
        cost_table: A table of times from ``tune``, or its file; it decides in place of the shipped one.
        measure_all: Measure all points, not only the ends, five between and the chosen one.
        preprocess: How images, audio or text become arrays.
        samples: Use that many samples of ``data``, evenly spread.
        skip_bad_samples: Leave unreadable samples out instead of stopping.
        cache: Where samples are kept on disk between passes, a folder or a size; see `ptq.data.open_samples`.
        batch: Samples that run at once, if the model takes any number.
        threads: Threads of ONNX Runtime, and of ptq itself; 0 is one for each core.
        progress: Called with each stage and its number of steps; see `ptq.core.run_options.Progress`.

    Raises:
        ModelError: The model cannot be read, prepared or run.
        DataError: A sample is missing, unreadable or does not fit.
        UsageError: An option makes no sense, nothing of the model is quantized, or no times are known for the target.
        Cancelled: The progress callback returned False or raised an exception.
    """
    options = QuantizeOptions(
        target, method, per_tensor=per_tensor, skip=skip, equalize=equalize, effort=effort, prefer=prefer,
    )  # fmt: skip
    options.check_target()
    require_choice("prefer", prefer, PREFERENCES)
    measure_all = require_flag("measure_all", measure_all)
    table = get_cost_table(get_target(target))
    if table is None:
        raise UsageError(f"no times are measured for target {target}; choose target ort")
    reading = SampleOptions(preprocess, samples, skip_bad_samples, cache=cache)
    run = RunOptions(threads=threads, evaluation_batch=batch, progress=progress)
    job = open_job(model, data, eval_data, reading, options, run, search=True)
    job, calibrated, draft = prepare_draft(job)
    made = quantize_and_check(job, calibrated, draft, SessionCache(run))
    assert job.samples.search is not None
    held_out = list(
        run.track(job.samples.search.spread(MAX_SAMPLES), "reading samples to measure on")
    )
    trials = Trials(calibrated, made.recipe, held_out, task=options.task, run=run)
    error = FrontierError(made, held_out, run)
    probe = build_quantized_error_probe(made, error.graph)
    if not probe.sources:
        raise UsageError("no node of the model is quantized; `ptq.inspect` gives the reasons")
    few, more = (select_evenly(held_out, count) for count in (ESTIMATION_SAMPLES, JOINT_SAMPLES))
    advance, injector = run.start_stage("attributing the error", None), ErrorInjector(probe, run)
    found = attribute_error(injector, few, advance=advance)
    times = FloatSetTimes(made, table)
    trade = FloatTrade(found, make_time_cost(build_float_time_model(made)), times)
    choice = frozenset[str]()
    if PREFERENCES[options.prefer].spend:
        decisions = count_decisions(job, made, SessionCache(run))
        names = {sample.name for sample in few}
        passes = few, [sample for sample in more if sample.name not in names]
        best = choose_float_set(job, made, trade, decisions, injector, passes).best
        choice = choice if best is None else best.floats
    curve = trace_curve(trade, [choice] if choice else [])
    curve = add_neighbours(trade, curve)
    curve = measure_curve(injector, curve, more)
    curve = thin_out(curve, [point for point in curve if point.floats == choice])
    if choice not in [point.floats for point in curve]:
        choice = curve[0].floats  # its sources together gain less than each alone
    advance.end()
    anchors = list_anchors(curve)
    wanted = [
        k for k, point in enumerate(curve) if measure_all or k in anchors or point.floats == choice
    ]
    reasons = [
        explain_float_nodes(found.sources, found.mean_shares, p.floats, REASON_PREFIX)
        for p in curve
    ]
    advance = run.start_stage("measuring", len(wanted))
    applied = find_preprocess(job, made)
    plans, measured = [], {}
    for number, why in enumerate(reasons):
        candidate = trials.quantize(why)
        plans.append(replace(candidate.plan, preprocess=applied))
        if number in wanted:
            measured[number] = _measure(error, candidate, few[0], run)
            advance()
    points = estimate_points(curve, measured)
    return Frontier(
        FrontierReport(
            model=job.name,
            target=draft.recipe.target,
            prefer=options.prefer,
            points=tuple(
                replace(point, floats=why, chosen=of.floats == choice)
                for point, why, of in zip(points, reasons, curve, strict=True)
            ),
            samples=len(held_out),
            estimated_on=len(few),
            runs=found.runs,
            sources=len(found.sources),
            cost_table=table.name,
            cost_table_digest=table.digest,
            suspects=(
                *check_noise(job.prepared.graph),
                *check_mode(job.source),
                *diagnose_assumption(job.samples.calibration),
            ),
        ),
        plans,
        calibrated.calibration,
    )


def _measure(
    error: FrontierError, candidate: QuantizedModel, sample: Sample, run: RunOptions
) -> tuple[float, float]:
    """The speed relative to float, and the SQNR in dB."""
    speed = measure_speed(
        Session.for_timing(candidate.calibrated_model.source, threads=run.threads),
        Session.for_timing(candidate.quantized_graph, threads=run.threads),
        sample.feed,
    )
    return speed.ratio, error.measure(candidate)
