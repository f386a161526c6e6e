"""Quantized model and report → result: the records in its metadata, its border, its file."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from ptq.api.applied_preprocess import find_preprocess
from ptq.api.complete_report import add_file_facts
from ptq.api.provenance import build_provenance
from ptq.data.splits import SampleOptions
from ptq.evaluation.exports.report import Report
from ptq.evaluation.report.computed_constants import count_computed_bytes
from ptq.evaluation.result import Result
from ptq.executor.tflite_export import encode_tflite
from ptq.model.metadata import PREPROCESS, PROVENANCE, write_record
from ptq.model.open import count_file_bytes
from ptq.model.proto.serialize import count_serialized_bytes
from ptq.model.tflite.describe_orders import describe_orders
from ptq.optimization.job import Job
from ptq.rewrite.border.apply import apply_border
from ptq.rewrite.border.open_shapes import without_inferred_shapes
from ptq.rewrite.tflite.write import TfliteOptions
from ptq.solver.quantizer import QuantizedModel


def build_result(
    job: Job,
    quantized: QuantizedModel,
    report: Report,
    reading: SampleOptions,
    source: Path | None,
    border: TfliteOptions,
    *,
    metadata: bool,
) -> Result:
    """The result of a quantization, with the preprocessing in its plan and in the model's metadata.

    Args:
        job: What was asked.
        quantized: The quantized model.
        report: The completed report.
        reading: How the user wants samples read.
        source: File of the float model; None if it was in memory.
        border: Element types of inputs and outputs, and batch, with the shapes of a sample.
        metadata: Whether the model's metadata record preprocessing and provenance.
    """
    applied = find_preprocess(job, quantized)
    plan, graph = quantized.plan, quantized.quantized_graph
    if plan.preprocess is None:
        plan = replace(plan, preprocess=applied)
    if metadata:
        graph = graph.copy()
        if applied is not None:
            write_record(graph, PREPROCESS, applied)
        plan_digest = hashlib.sha256(plan.to_json().encode()).hexdigest()
        write_record(
            graph, PROVENANCE, build_provenance(job, quantized, report, reading, plan_digest)
        )
    file = encode_tflite(graph, border) if job.options.form == "tflite" else None
    bordered, notes = apply_border(graph, border, metadata=metadata)
    bordered = without_inferred_shapes(bordered, job.source)
    report = add_file_facts(
        report,
        job,
        graph,
        file,
        notes if file is None else (*describe_orders(file.content), *notes),
        # serialized again, a model has other bytes than its file
        float_bytes=count_file_bytes(source)
        if source
        else count_serialized_bytes(job.source.model),
        int8_bytes=count_serialized_bytes(bordered.model) if file is None else len(file.content),
        computed_bytes=count_computed_bytes(bordered if file is None else graph, job.source),
    )
    calibration = quantized.calibrated_model.calibration
    tflite = None if file is None else file.content
    return Result(bordered, plan, report, calibration, source, tflite)
