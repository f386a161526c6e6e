"""What the report of a quantization gets beyond what ran in ONNX Runtime: before its file is made, and after.

`build_report` measures. Then `complete_report` adds what is known of the model, and `add_file_facts` what its file
shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ptq.api.applied_preprocess import find_contradictions, find_other_preprocess, find_preprocess
from ptq.api.speed_findings import add_speed_findings
from ptq.api.target_runtime import describe_in_target_runtime
from ptq.core.targets import get_target
from ptq.data.preprocessing.recorded_preprocess import (
    list_recorded_options,
)
from ptq.evaluation.diagnosis import Diagnosis, sort_by_seriousness
from ptq.evaluation.exports.report import Report
from ptq.evaluation.frontier import EstimatedFrontier
from ptq.evaluation.report.benefit_check import check_benefit
from ptq.evaluation.report.litert_check import add_litert_check
from ptq.executor.runtimes.registry import TargetRuntime
from ptq.model.graph import Graph
from ptq.observers.sample_identity import format_shards
from ptq.optimization.job import Job
from ptq.rewrite.tflite.write import TfliteFile, TfliteOptions
from ptq.solver.partition.shipped_tables import describe_choice
from ptq.solver.quantizer import QuantizedModel


def complete_report(
    report: Report,
    job: Job,
    quantized: QuantizedModel,
    inside: TargetRuntime | None,
    tflite: TfliteOptions,
    *,
    estimated_speed: float | None,
    frontier: EstimatedFrontier | None,
) -> Report:
    """The report with estimates, the target's own runtime, reasons for little speed, and the preprocessing.

    Args:
        report: What was measured.
        job: What was asked.
        quantized: The quantized model, as its runtime takes it.
        inside: The runtime that it is for, with the model; None if it is ONNX Runtime.
        tflite: How a `.tflite` file is written.
        estimated_speed: Speed relative to float by the table of times; None without one.
        frontier: The trade of speed against error that was estimated; None if it was not.
    """
    report = replace(
        report, estimated_speed=estimated_speed, frontier=frontier,
        cost_note=describe_choice(get_target(quantized.plan.target)),
    )  # fmt: skip
    report = describe_in_target_runtime(report, quantized, inside, job.samples, tflite, job.run)
    report = add_speed_findings(report, quantized.quantized_graph)
    applied = find_preprocess(job, quantized)
    if applied is None:
        return report
    return replace(
        report,
        preprocessing=list_recorded_options(applied),
        evaluation_preprocessing=find_other_preprocess(job, applied),
        suspects=sort_by_seriousness((*find_contradictions(job, applied), *report.suspects)),
    )


def add_file_facts(
    report: Report,
    job: Job,
    graph: Graph,
    tflite: TfliteFile | None,
    notes: Sequence[str],
    *,
    float_bytes: int,
    int8_bytes: int,
    computed_bytes: int,
) -> Report:
    """The report with what the model's file shows: border, LiteRT's check, sizes and the benefit.

    Args:
        report: The completed report.
        job: What was asked.
        graph: The quantized graph, from which a `.tflite` file is written.
        tflite: This file; None for an ONNX model.
        notes: What was changed for the file.
        float_bytes: Size of the float model.
        int8_bytes: Size of the quantized one.
        computed_bytes: Bytes of it for constants that the float model computes.
    """
    report = replace(report, changes=(*report.changes, *notes))
    if tflite is not None:
        report = add_litert_check(report, tflite, graph, job.samples)
    report = replace(
        report, float_bytes=float_bytes, int8_bytes=int8_bytes, computed_bytes=computed_bytes
    )
    found = [*check_benefit(report), *_find_missing_shards(job), *report.suspects]
    found.sort(key=lambda suspect: not (suspect.headline and suspect.serious))
    return replace(report, suspects=tuple(found))


def _find_missing_shards(job: Job) -> tuple[Diagnosis, ...]:
    """The warning that the statistics, which set the ranges, do not count all shards of their samples."""
    stats = job.given.stats
    missing = [] if stats is None or stats.identity is None else stats.identity.list_missing()
    if not missing or job.given.plan is not None:
        return ()
    return (
        Diagnosis(
            f"{format_shards(missing)} of the samples {'is' if len(missing) == 1 else 'are'} not counted",
            "statistics",
            "merge the statistics of all shards first (ptq calibrate --merge, ptq.merge_statistics)",
            topic="a-few-answers-changed",
        ),
    )
