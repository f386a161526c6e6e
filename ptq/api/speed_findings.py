"""The usual reasons for slow integers, in the report of a result that gains little speed."""

from __future__ import annotations

from dataclasses import replace

from ptq.core.errors import ModelError
from ptq.evaluation.exports.report import Report
from ptq.evaluation.report.report_data import ONNX_RUNTIME
from ptq.executor.runtimes.registry import RUNTIMES
from ptq.model.graph import Graph
from ptq.verification.slow_in_litert import find_slow_in_litert
from ptq.verification.slow_integers import SlowPattern, find_slow_patterns

LITTLE_SPEED = 1.3
"""Speed relative to float below which the reasons are named; convolutional networks reach 1.5 to 4."""


def add_speed_findings(report: Report, graph: Graph) -> Report:
    """The report with the reasons why its model gains little speed; the same one if it gains enough.

    Without reasons too if ONNX Runtime cannot write its optimized graph, for example on a full disk.

    Args:
        report: The report of a quantization.
        graph: The quantized model.
    """
    if report.speed is None or report.speed >= LITTLE_SPEED or not report.is_timed_in_its_runtime:
        return report
    try:
        found = _find_reasons(report, graph)
    except ModelError:
        return report
    return replace(
        report,
        slow=tuple(f"speed {report.speed:.2f}× float: {why}" for why in found),
        slow_causes=tuple(pattern.cause for pattern in found),
    )


def _find_reasons(report: Report, graph: Graph) -> tuple[SlowPattern, ...]:
    if report.speed_runtime == RUNTIMES["litert"].title:
        return find_slow_in_litert(row.op for row in report.nodes if row.fate == "int8")
    return find_slow_patterns(graph) if report.speed_runtime == ONNX_RUNTIME else ()
