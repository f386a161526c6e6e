"""Doubt that two models belong together, or that the one to compare with is a float model."""

from __future__ import annotations

from collections.abc import Iterator

from ptq.evaluation.checks.record_check import REFERENCE_MODEL
from ptq.evaluation.diagnosis import Diagnosis
from ptq.evaluation.drop import describe_metric_change
from ptq.evaluation.measurements import REFERENCE, Evaluation, FormMetrics
from ptq.evaluation.metrics import describe_other_shapes
from ptq.model.graph import Graph
from ptq.model.open import is_quantized

UNRELATED_SQNR_DB = 3.0
"""At 3 dB half of the output's energy is error; two networks of one task have about 0 dB."""
UNRELATED_POINTS = 50.0
"""Points lost of the task's metric, where SQNR is undefined: values decide the shape of the output."""


def check_relation(evaluation: Evaluation) -> Iterator[Diagnosis]:
    """Diagnose a form whose output has little in common with that of the float model."""
    for name, form in evaluation.forms.items():
        if name == REFERENCE or evaluation.head not in form.outputs:
            continue
        loss = _find_large_loss(evaluation, form)
        if loss:
            yield Diagnosis(
                f"its output has little in common with that of the float model, {loss}; is that the "
                "model it was made of?",
                "the quantized model",
                "compare it with its own float model; if it is, quantization destroyed it",
                serious=True,
            )


def check_reference(reference: Graph) -> Iterator[Diagnosis]:
    """Diagnose a model to compare with that is no float model."""
    if is_quantized(reference):
        yield Diagnosis(
            "it is quantized, and what is called float here are its results",
            REFERENCE_MODEL,
            "compare with the float model, to measure what quantization costs",
        )


def _find_large_loss(evaluation: Evaluation, form: FormMetrics) -> str:
    """How much of the output is lost, if it is most; else empty. Where shapes differ, the task's metric decides."""
    fidelity, task = form.outputs[evaluation.head], evaluation.task
    if fidelity.other_shapes and form.drop is not None and task is not None and task.output:
        return describe_metric_change(form.drop)[0] if form.drop.points > UNRELATED_POINTS else ""
    sqnr = fidelity.sqnr_db
    if sqnr >= UNRELATED_SQNR_DB:
        return ""
    return describe_other_shapes(fidelity) or f"SQNR {sqnr:.1f} dB"
