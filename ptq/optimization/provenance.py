"""How a quantized model was made, as a record in its metadata; and the result of a quantization that carries it.

The record holds nothing that differs between two runs on the same input: no path, date, host, speed, thread or worker
count. A metric of the user appears as ``user``.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ptq.core.preprocess_record import describe_differences
from ptq.core.record import Record
from ptq.data.preprocessing.recorded_preprocess import (
    RecordedPreprocess,
    encode_preprocess,
    list_recorded_options,
)
from ptq.data.splits import SampleOptions
from ptq.evaluation.checks.input_shift_check import calibration_inputs
from ptq.evaluation.diagnosis import Diagnosis
from ptq.evaluation.drop import Drop
from ptq.evaluation.exports.report import Report
from ptq.evaluation.report.benefit_check import check_benefit
from ptq.evaluation.report.litert_check import add_litert_check
from ptq.evaluation.result import Result
from ptq.executor.tflite_export import encode_tflite
from ptq.model.machine.processor import name_machine
from ptq.model.metadata import PREPROCESS, PROVENANCE, write_record
from ptq.model.open import count_file_bytes
from ptq.model.proto.serialize import serialized_size
from ptq.model.session.exact_sums import has_exact_int8_sums
from ptq.model.session.session import library_versions
from ptq.model.tflite.describe_orders import describe_orders
from ptq.observers.sample_identity import format_shards
from ptq.optimization.options import list_result_options
from ptq.optimization.pipeline import Job
from ptq.rewrite.border.apply import apply_border
from ptq.solver.quantizer import QuantizedModel

_MOST_CHARACTERS = 2**14
"""Characters of the names of float nodes and their reasons, far below what a record may have."""
_DIGITS = 4
"""Significant digits of a measured drop. ONNX Runtime's last digits depend on threads and batch."""
_ARRAYS = "arrays, fed as given"


def build_result(
    job: Job,
    made: QuantizedModel,
    report: Report,
    reading: SampleOptions,
    source: Path | None,
    *,
    metadata: bool,
) -> Result:
    """The result of a quantization, with the preprocessing in its plan and in the model's metadata.

    Args:
        job: What was asked.
        made: The quantized model.
        report: What was measured.
        reading: How the user wants samples read.
        source: File of the float model; None if it was in memory.
        metadata: Whether the model's metadata record preprocessing and provenance.
    """
    calibration = made.calibrated_model.calibration
    applied = find_preprocess(job, made)
    plan = made.plan if made.plan.preprocess is not None else replace(made.plan, preprocess=applied)
    graph = made.quantized_graph
    if applied is not None:
        suspects = [*_find_contradictions(job, applied), *report.suspects]
        suspects.sort(key=lambda suspect: not suspect.serious)
        report = replace(
            report,
            preprocessing=list_recorded_options(applied),
            evaluation_preprocessing=_find_other_preprocess(job, applied),
            suspects=tuple(suspects),
        )
    if metadata:
        graph = graph.copy()
        if applied is not None:
            write_record(graph, PREPROCESS, applied)
        plan_digest = hashlib.sha256(plan.to_json().encode()).hexdigest()
        write_record(graph, PROVENANCE, _build_provenance(job, made, report, reading, plan_digest))
    tflite, border = None, job.options.to_tflite_options(job.samples)
    if job.options.form == "tflite":
        file = encode_tflite(graph, border)
        tflite = file.content
        report = replace(report, changes=(*report.changes, *describe_orders(tflite)))
        report = add_litert_check(report, file, graph, job.samples)
    graph, notes = apply_border(graph, border, metadata=metadata)
    report = replace(report, changes=(*report.changes, *notes))
    # serialized again, a model has other bytes than its file
    float_bytes = count_file_bytes(source) if source else serialized_size(job.source.model)
    int8_bytes = serialized_size(graph.model) if tflite is None else len(tflite)
    report = replace(report, float_bytes=float_bytes, int8_bytes=int8_bytes)
    found = [*check_benefit(report), *_find_missing_shards(job), *report.suspects]
    found.sort(key=lambda suspect: not (suspect.headline and suspect.serious))
    report = replace(report, suspects=tuple(found))
    return Result(graph, plan, report, calibration, source, tflite)


def find_preprocess(job: Job, made: QuantizedModel) -> Record | None:
    """The preprocessing under which the ranges were chosen; else that of the samples; None if there are none."""
    recorded = job.given.recorded
    if recorded is not None:
        return recorded.record
    known = made.calibrated_model.calibration.preprocess
    used = job.samples.calibration or job.samples.evaluation
    if known is not None or used is None:
        return known
    return encode_preprocess(used.preprocess)


def _find_other_preprocess(job: Job, applied: Record) -> Record | None:
    """The preprocessing of the evaluation samples if it differs from that of the ranges."""
    if job.samples.evaluation is None:
        return None
    measured = encode_preprocess(job.samples.evaluation.preprocess)
    return measured if describe_differences(measured, applied) else None


def _find_contradictions(job: Job, applied: Record) -> tuple[Diagnosis, ...]:
    """What the samples of this run, or the statistics, have otherwise than the preprocessing of the ranges."""
    given = job.given
    recorded = given.recorded or RecordedPreprocess(applied, "the calibration samples")
    found = {}
    for where, used in (
        ("calibration samples", job.samples.calibration),
        ("evaluation samples", job.samples.evaluation),
    ):
        if used is not None:
            found[where] = recorded.describe_difference(used.preprocess)
    if given.plan is not None and given.stats is not None and given.stats.preprocess is not None:
        difference = describe_differences(given.stats.preprocess, applied)
        found["statistics"] = difference and f"preprocessing differs from the plan: {difference}"
    advice = "prepare all samples alike, or calibrate again"
    # arrays beside images may be prepared alike
    return tuple(
        Diagnosis(what, where, advice, serious=_ARRAYS not in what)
        for where, what in found.items()
        if what and not (given.recorded is None and _ARRAYS in what)  # the report shows both
    )


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


def _build_provenance(
    job: Job, made: QuantizedModel, report: Report, reading: SampleOptions, plan_digest: str
) -> Record:
    """How the model was made."""
    options = list_result_options(job.options, reading)
    options |= {"target": made.plan.target, "weights": made.recipe.weights}
    drop = None if report.evaluation is None else report.evaluation.forms["int8"].drop
    inputs = calibration_inputs(made.calibrated_model).to_record()
    return {
        "tool": "ptq",
        "version": version("onnx-ptq"),
        "options": options,
        "given": job.given.replaced,
        "digests": {
            "float_model": job.source.digest(),
            "plan": plan_digest,
            "calibration_samples": report.calibration_digest or None,
            "evaluation_samples": report.evaluation_digest or None,
        },
        "calibration_samples": report.calibration_samples,
        **({"calibration_inputs": inputs} if inputs else {}),
        "onnxruntime": library_versions()["onnxruntime"],
        "processor": describe_processor(),
        "float_nodes": group_float_nodes(made.plan.floats),
        "drop": None if drop is None else _describe_drop(drop, report),
    }


def _describe_drop(drop: Drop, report: Report) -> Record:
    """The measured drop, and on which samples; with their preprocessing if the ranges have another one."""
    other = report.evaluation_preprocessing
    measured = {**_round_drop(drop), "measured": report.evaluated_on}
    return measured if other is None else {**measured, "preprocess": other}


def group_float_nodes(floats: Mapping[str, str]) -> dict[str, list[str]]:
    """The float nodes of each reason; empty if their names are too long for a record."""
    grouped: dict[str, list[str]] = {}
    for name, reason in sorted(floats.items()):
        grouped.setdefault(reason, []).append(name)
    size = sum(map(len, (*floats, *grouped)))
    return grouped if size <= _MOST_CHARACTERS else {}


def describe_processor() -> Record:
    """The kind of this processor, as far as it decides the integers that ONNX Runtime computes."""
    return {"machine": name_machine(), "exact_int8_sums": has_exact_int8_sums()}


def _round_drop(drop: Drop) -> dict[str, Any]:
    """The figures of a drop with few digits; None for a figure that is not finite, which JSON cannot hold."""
    return {key: _round(value) for key, value in asdict(drop).items()}


def _round(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
