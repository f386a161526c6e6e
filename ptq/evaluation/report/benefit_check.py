"""Quantized models that are no improvement: larger or slower than float, or unreadable for older runtimes."""

from __future__ import annotations

from collections.abc import Iterator

from ptq.core.errors import NoGainError
from ptq.core.topics import Topic
from ptq.core.wording import ABOUT_AS_LARGE, describe_size_ratio, format_size
from ptq.evaluation.diagnosis import Diagnosis
from ptq.evaluation.report.report_data import ReportData

NOTICEABLY_SLOWER = 0.95
"""Speed relative to float below which the whole interval of a refused result must lie: less does not matter."""
HARMLESS_BYTES = 2**20
"""Growth of a file that does no harm: a small model grows by its quantizers and their names, whatever it computes."""
_LARGER = "quantizers and float32 weights take more bytes than int8 saves"
_COMPUTED = "it stores constants that the float model computes"
_NO_INTEGERS = "no node computes on integers; only names and metadata were added"
_SLOWER = "quantizers take more time than int8 saves"


def is_larger(report: ReportData) -> bool:
    """Whether the quantized model's file is larger than the float model's."""
    return report.int8_bytes > report.float_bytes


def is_slower(report: ReportData, than: float = 1.0) -> bool:
    """Whether the quantized model is slower than float for certain, in the runtime that its target is for.

    Args:
        report: The report of a quantization.
        than: Speed relative to float below which the whole interval lies.
    """
    interval = report.speed_interval
    return report.is_timed_in_its_runtime and interval is not None and interval[1] < than


def check_benefit(report: ReportData) -> Iterator[Diagnosis]:
    """Diagnose a result that is larger or slower than the float model; it stands in the first line of a report."""
    if not is_larger(report) and not is_slower(report):
        return
    slower = " and ".join(report.slow_causes) or _SLOWER
    larger = _describe_growth(report)
    reasons = [larger] * is_larger(report) + [slower] * is_slower(report)
    gain = "; nothing is gained" if len(reasons) == 2 else ""
    topic: Topic = "slower-than-float" if is_slower(report) else "not-four-times-smaller"
    if not report.has_integers:
        reasons = [_NO_INTEGERS if larger == _LARGER else larger]
        topic = "nothing-or-hardly-anything-is-quantized"
    yield Diagnosis(
        f"{_describe_faults(report)} than float{gain} ({'; '.join(reasons)})",
        "the quantized model",
        ", or ".join(_list_remedies(report)),
        headline=True,
        topic=topic,
    )


def require_gain(report: ReportData, result: object) -> None:
    """Refuse a result that is slower than the float model and larger by more than `HARMLESS_BYTES`.

    Constants that the float model computes do not count.

    Args:
        report: The report of a quantization.
        result: What the error carries as its ``result``.

    Raises:
        NoGainError: The result is larger and, for certain, slower.
    """
    grown = report.int8_bytes - report.computed_bytes - report.float_bytes
    if grown > HARMLESS_BYTES and is_slower(report, NOTICEABLY_SLOWER):
        raise NoGainError(
            f"the quantized model is {_describe_faults(report)} than float: nothing is gained; "
            f"{', '.join(_list_remedies(report))}, or take the result nevertheless (option force)",
            result,
        )


def _describe_growth(report: ReportData) -> str:
    """Why the quantized model is larger: what has most of the bytes."""
    if 2 * report.computed_bytes > max(0, report.int8_bytes - report.float_bytes):
        return f"{_COMPUTED}, {format_size(report.computed_bytes)}"
    return _LARGER


def _list_remedies(report: ReportData) -> list[str]:
    helps = is_slower(report) or _describe_growth(report) == _LARGER
    fewer = (
        ["keep its small layers in float (option skip)"] if report.has_integers and helps else []
    )
    return ["use the float model", *fewer]


def _describe_faults(report: ReportData) -> str:
    faults = []
    if is_larger(report):
        ratio = describe_size_ratio(report.float_bytes, report.int8_bytes)
        faults.append("slightly larger" if ratio == ABOUT_AS_LARGE else ratio)
    if is_slower(report) and report.speed is not None:
        faults.append(f"{1 / report.speed:.2f} times slower")
    return " and ".join(faults)


def check_opset(before: int, after: int) -> Iterator[Diagnosis]:
    """Diagnose an opset that was raised.

    Args:
        before: Opset of the float model.
        after: Opset of the quantized model.
    """
    if after > before:
        yield Diagnosis(
            f"raised from {before} to {after}; a runtime that does not read opset {after} does not load the result",
            "opset",
            "keep the opset of the float model (option opset, keep) if it must run there",
            topic="does-not-load",
        )
