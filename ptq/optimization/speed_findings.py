"""The usual reasons for slow integers, in the report of a result that gains little speed."""

from __future__ import annotations

from dataclasses import replace

from ptq.core.errors import ModelError
from ptq.core.targets import get_target
from ptq.evaluation.exports.report import Report
from ptq.model.graph import Graph
from ptq.verification.slow_integers import find_slow_patterns

LITTLE_SPEED = 1.3
"""Speed relative to float below which the reasons are named; convolutional networks reach 1.5 to 4."""


def add_speed_findings(report: Report, graph: Graph) -> Report:
    """The report with the reasons why its model gains little speed; the same one if it gains enough.

    Without reasons too if ONNX Runtime cannot write its optimized graph, for example on a full disk.

    Args:
        report: The report of a quantization.
        graph: The quantized model.
    """
    in_onnx_runtime = get_target(report.target).has_ort_workarounds
    if report.speed is None or report.speed >= LITTLE_SPEED or not in_onnx_runtime:
        return report
    try:
        found = find_slow_patterns(graph)
    except ModelError:
        return report
    return replace(
        report,
        slow=tuple(f"speed {report.speed:.2f}× float: {why}" for why in found),
        slow_causes=tuple(pattern.cause for pattern in found),
    )
