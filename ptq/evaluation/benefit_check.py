"""Quantized models that are no improvement: larger or slower than float, or unreadable for older runtimes."""

from __future__ import annotations

from collections.abc import Iterator

from ptq.core.targets import Target
from ptq.core.wording import describe_size_ratio
from ptq.evaluation.diagnosis import Diagnosis

NOTICEABLY_SLOWER = 0.95
"""Speed relative to float below which it is no noise of the measurement."""


def check_benefit(
    float_bytes: int, int8_bytes: int, speed: float | None, target: Target
) -> Iterator[Diagnosis]:
    """Diagnose a result that is larger or slower than the float model.

    Args:
        float_bytes: File size of the float model.
        int8_bytes: File size of the quantized model.
        speed: Speed relative to float in ONNX Runtime; None if not measured.
        target: The target; only one that runs in ONNX Runtime has that speed.
    """
    larger = int8_bytes > float_bytes
    slower = target.has_ort_workarounds and speed is not None and speed < NOTICEABLY_SLOWER
    faults, reasons = [], []
    if larger:
        faults.append(describe_size_ratio(float_bytes, int8_bytes))
        reasons.append("its weights are few, and quantizers take more bytes than int8 saves")
    if slower and speed is not None:
        faults.append(f"{1 / speed:.2f} times slower")
        reasons.append("its layers are small, and quantizers take more time than int8 saves")
    if faults:
        gain = "; nothing is gained" if len(faults) == 2 else ""
        yield Diagnosis(
            f"{' and '.join(faults)} than float{gain} ({'; '.join(reasons)})",
            "the quantized model",
            "use the float model, or keep its small layers in float (skip)",
        )


def check_opset(before: int, after: int) -> Iterator[Diagnosis]:
    """Diagnose an opset that was raised.

    Args:
        before: Opset of the float model.
        after: Opset of the quantized model.
    """
    if after > before:
        yield Diagnosis(
            f"raised from {before} to {after}; a runtime that reads at most opset {before} does not load the result",
            "opset",
            "keep the opset of the float model (opset keep) if it must run there",
        )
