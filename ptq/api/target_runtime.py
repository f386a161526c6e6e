"""A quantized model in the runtime that it is for: measured if that is installed, and said if it is not."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

import numpy as np

from ptq.core.decibels import to_sqnr_db
from ptq.core.errors import PtqError
from ptq.core.run_options import RunOptions
from ptq.core.targets import get_target
from ptq.core.wording import format_decibels, plural
from ptq.data import Samples
from ptq.data.splits import SampleSplit
from ptq.evaluation.exports.report import Report
from ptq.evaluation.runs.engines import make_float16_engine, make_named_engine
from ptq.evaluation.runs.session_cache import open_float_session
from ptq.evaluation.speed import Speed, measure_speed
from ptq.executor.runtimes.registry import RUNTIMES, Runtime, TargetRuntime
from ptq.executor.runtimes.runtime import RuntimeModel, describe_placement
from ptq.executor.tflite_export import encode_tflite
from ptq.model.graph import Graph
from ptq.model.node import get_name
from ptq.rewrite.tflite.write import TfliteOptions
from ptq.solver.quantizer import CalibratedModel, QuantizedModel
from ptq.verification.lint import lint_graph

LITERT = "litert"
"""The runtime of `.tflite` files, whatever the target."""
_MAX_SAMPLES, _SECONDS = 32, 10.0
"""Samples and time after which enough was run; emulators take seconds for a sample."""


def open_target_runtime(
    quantized: QuantizedModel, samples: SampleSplit, tflite: TfliteOptions, run: RunOptions
) -> TargetRuntime | None:
    """Load a quantized model in the runtime that its target, or its file, is for; None if that is ONNX Runtime.

    Args:
        quantized: The quantized model, as its runtime takes it.
        samples: Its samples; without evaluation samples nothing is loaded.
        tflite: How a `.tflite` file is written.
        run: How the job runs.
    """
    name = (
        LITERT if quantized.recipe.form == "tflite" else get_target(quantized.plan.target).runtime
    )
    if name is None:
        return None
    runtime = RUNTIMES[name]
    if samples.evaluation is None or not runtime.is_installed():
        return TargetRuntime(runtime)
    try:
        model = _open(runtime, quantized.quantized_graph, tflite, run)
    except PtqError as error:
        return TargetRuntime(runtime, problem=str(error))
    return TargetRuntime(runtime, model)


def describe_in_target_runtime(
    report: Report,
    quantized: QuantizedModel,
    inside: TargetRuntime | None,
    samples: SampleSplit,
    tflite: TfliteOptions,
    run: RunOptions,
) -> Report:
    """The report with figures of the target's own runtime: speed and placement, or why there are none.

    The speed there takes the place of that in ONNX Runtime. An emulator also measures the accuracy on a few samples.

    Args:
        report: The report of a quantization.
        quantized: The quantized model.
        inside: The runtime, with the model; None if it is ONNX Runtime.
        samples: Its samples; the evaluation samples are run.
        tflite: How a `.tflite` file is written.
        run: How the job runs.
    """
    row = get_target(report.target)
    lines: list[str] = []
    if row.lint not in (None, "litert"):
        lines.append(_describe_rules(quantized.quantized_graph, report.target, row.source))
    if inside is not None:
        runtime = inside.runtime
        if not runtime.is_installed():
            lines.append(f"not run in {runtime.title}: it is not installed ({runtime.install})")
        elif inside.model is not None and samples.evaluation is not None:
            found, speed = _measure(
                runtime, inside.model, quantized, samples.evaluation, tflite, run
            )
            lines += found
            if speed is not None:
                report = replace(
                    report,
                    speed=speed.ratio,
                    speed_interval=speed.interval,
                    speed_runtime=runtime.title,
                    estimated_speed=None,
                )
    elif row.lint == "tensorrt":
        lines.append(f"not run in {row.source}: it needs a GPU")
    return replace(report, changes=(*report.changes, *lines)) if lines else report


def _describe_rules(quantized: Graph, target: str, source: str) -> str:
    found = lint_graph(quantized, target)
    errors = sum(finding.severity == "error" for finding in found)
    notes = len(found) - errors
    outcome = f"{plural(errors, 'error')}, {plural(notes, 'note')}" if found else "no finding"
    return f"rules of {source}: {outcome}"


def _measure(
    runtime: Runtime,
    inside: RuntimeModel,
    quantized: QuantizedModel,
    samples: Samples,
    tflite: TfliteOptions,
    run: RunOptions,
) -> tuple[list[str], Speed | None]:
    """Lines on placement and speed, and the speed against the runtime's own float; of an emulator on accuracy."""
    model = quantized.calibrated_model
    where, lines = f"in {runtime.title}", list[str]()
    some = samples.spread(_MAX_SAMPLES)
    try:
        if runtime.is_emulator:
            halves = tflite.io == "float16"
            lines.append(f"{where}: {_measure_accuracy(inside, model, some, run, halves=halves)}")
        lines += [f"{where}: {line}" for line in describe_placement(inside.placement())]
        if runtime.is_emulator:
            return lines, None
        floats = _open_float(runtime, model, tflite, run)
        feed = next(iter(some)).feed
        floats.run(feed)
        speed = measure_speed(floats, inside, feed)
    except PtqError as error:
        return [*lines, f"{where}: not measured: {error}"], None
    return [*lines, f"{where}: speed {speed.ratio:.2f}× its own float"], speed


def _measure_accuracy(
    inside: RuntimeModel, model: CalibratedModel, samples: Samples, run: RunOptions, *, halves: bool
) -> str:
    """SQNR in dB of the first output, on as many samples as the time allows; ``halves`` as at the file's border."""
    head, before = get_name(model.source.outputs[0]), open_float_session(model, run)
    engine = make_named_engine(inside, [head])
    engine = make_float16_engine(engine) if halves else engine
    signal, noise, count, start = 0.0, 0.0, 0, perf_counter()
    for sample in samples:
        wanted = np.asarray(before.run(sample.feed, [head])[0], np.float64)
        signal += float((wanted**2).sum())
        noise += float(((wanted - engine(sample.feed)[0]) ** 2).sum())
        count += 1
        if perf_counter() - start > _SECONDS:
            break
    ratio = format_decibels(to_sqnr_db(signal, noise))
    return f"SQNR {ratio} dB on {plural(count, 'sample')}, output {head}"


def _open_float(
    runtime: Runtime, model: CalibratedModel, tflite: TfliteOptions, run: RunOptions
) -> RuntimeModel:
    """The float model; the prepared one, which computes the same, if the runtime lacks an operator."""
    try:
        return _open(runtime, model.source, tflite, run)
    except PtqError:
        return _open(runtime, model.prepared.graph, tflite, run)


def _open(runtime: Runtime, graph: Graph, tflite: TfliteOptions, run: RunOptions) -> RuntimeModel:
    if runtime.name != LITERT:
        return runtime.open(graph, threads=run.threads)
    content = encode_tflite(graph, replace(tflite, io="float")).content
    return runtime.open(graph, threads=run.threads, content=content)
