"""How a quantized model was made, as a record in its metadata.

The record holds nothing that differs between two runs on the same input: no path, date, host, speed, thread or worker
count. A metric of the user appears as ``user``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from ptq.core.record import Record
from ptq.data.splits import SampleOptions
from ptq.evaluation.checks.input_shift_check import summarize_calibration_inputs
from ptq.evaluation.drop import Drop
from ptq.evaluation.exports.report import Report
from ptq.model.machine.processor import name_machine
from ptq.model.session.exact_sums import has_exact_int8_sums
from ptq.model.session.session import list_library_versions
from ptq.optimization.job import Job
from ptq.optimization.options import list_result_options
from ptq.solver.quantizer import QuantizedModel

_MOST_CHARACTERS = 2**14
"""Characters of the names of float nodes and their reasons, far below what a record may have."""
_DIGITS = 4
"""Significant digits of a measured drop. ONNX Runtime's last digits depend on threads and batch."""


def build_provenance(
    job: Job, quantized: QuantizedModel, report: Report, reading: SampleOptions, plan_digest: str
) -> Record:
    """How a model was made.

    Args:
        job: What was asked.
        quantized: The quantized model.
        report: What was measured, with the preprocessing.
        reading: How the user wants samples read.
        plan_digest: SHA-256 of the plan.
    """
    options = list_result_options(job.options, reading)
    options |= {"target": quantized.plan.target, "weights": quantized.recipe.weights}
    drop = None if report.evaluation is None else report.evaluation.forms["int8"].drop
    inputs = summarize_calibration_inputs(quantized.calibrated_model).to_record()
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
        "onnxruntime": list_library_versions()["onnxruntime"],
        "processor": describe_processor(),
        "float_nodes": group_float_nodes(quantized.plan.floats),
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
