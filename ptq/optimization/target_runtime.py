"""A quantized model in the runtime that it is for: measured if that is installed, and said if it is not."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

import numpy as np

from ptq.core.decibels import sqnr_db
from ptq.core.errors import PtqError
from ptq.core.run_options import RunOptions
from ptq.core.targets import get_target
from ptq.core.wording import format_decibels, plural
from ptq.data import Samples
from ptq.data.splits import SampleSplit
from ptq.evaluation.exports.report import Report
from ptq.evaluation.speed import Speed, measure_speed
from ptq.executor.runtimes.registry import RUNTIMES, Runtime
from ptq.executor.runtimes.runtime import describe_placement
from ptq.model.graph import Graph
from ptq.model.node import name_of
from ptq.model.session import Session
from ptq.verification.lint import lint_graph

LITERT = "litert"
"""The runtime of `.tflite` files, whatever the target."""
_MAX_SAMPLES, _SECONDS = 32, 10.0
"""Samples and time after which enough was run; emulators take seconds for a sample."""


def describe_in_target_runtime(
    report: Report, source: Graph, quantized: Graph, samples: SampleSplit, run: RunOptions
) -> Report:
    """The report with figures of the target's own runtime: accuracy, speed and placement, or why there are none.

    The speed there takes the place of that in ONNX Runtime.

    Args:
        report: The report of a quantization.
        source: The float model.
        quantized: The quantized model.
        samples: Its samples; the evaluation samples are run.
        run: How the job runs.
    """
    row = get_target(report.target)
    lines: list[str] = []
    if row.lint not in (None, "litert"):
        lines.append(_describe_rules(quantized, report.target, row.source))
    name = LITERT if report.form == "tflite" else row.runtime
    speed: Speed | None = None
    if name is not None:
        runtime = RUNTIMES[name]
        if not runtime.is_installed():
            lines.append(f"not run in {runtime.title}: it is not installed ({runtime.install})")
        elif samples.evaluation is not None:
            found, speed = _measure(runtime, source, quantized, samples.evaluation, run)
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
    runtime: Runtime, source: Graph, quantized: Graph, samples: Samples, run: RunOptions
) -> tuple[list[str], Speed | None]:
    """Lines on accuracy against float and on placement, and the speed against the runtime's own float."""
    head, where, lines = name_of(source.outputs[0]), f"in {runtime.title}", list[str]()
    signal, noise, count, start = 0.0, 0.0, 0, perf_counter()
    some = samples.spread(_MAX_SAMPLES)
    try:
        inside = runtime.open(quantized, threads=run.threads)
        before = Session.for_reference(source, threads=run.threads)
        for sample in some:
            wanted = np.asarray(before.run(sample.feed, [head])[0], np.float64)
            signal += float((wanted**2).sum())
            noise += float(((wanted - inside.run(sample.feed, [head])[0]) ** 2).sum())
            count += 1
            if perf_counter() - start > _SECONDS:
                break
        ratio = format_decibels(sqnr_db(signal, noise))
        lines.append(f"{where}: SQNR {ratio} dB on {plural(count, 'sample')}, output {head}")
        lines += [f"{where}: {line}" for line in describe_placement(inside.placement())]
        if runtime.is_emulator:
            return lines, None
        floats = runtime.open(source, threads=run.threads)
        feed = next(iter(some)).feed
        floats.run(feed)
        speed = measure_speed(floats, inside, feed)
    except PtqError as error:
        return [*lines, f"{where}: not measured: {error}"], None
    return [*lines, f"{where}: speed {speed.ratio:.2f}× its own float"], speed
