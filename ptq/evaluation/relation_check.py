"""Doubt that two models belong together: one is not the quantized form of the other."""

from __future__ import annotations

from collections.abc import Iterator

from ptq.evaluation.diagnosis import Diagnosis
from ptq.evaluation.evaluate import REFERENCE
from ptq.evaluation.measurements import Evaluation

UNRELATED_SQNR_DB = 3.0
"""At 3 dB half of the output's energy is error; two networks of one task have about 0 dB."""


def check_relation(evaluation: Evaluation) -> Iterator[Diagnosis]:
    """Diagnose a form whose output has little in common with that of the float model."""
    for name, form in evaluation.forms.items():
        if name == REFERENCE or evaluation.head not in form.outputs:
            continue
        sqnr = form.outputs[evaluation.head].sqnr_db
        if sqnr < UNRELATED_SQNR_DB:
            yield Diagnosis(
                f"its output has little in common with that of the float model, SQNR {sqnr:.1f} dB; is that the "
                "model it was made of?",
                "the quantized model",
                "compare it with its own float model; if it is, quantization destroyed it",
                serious=True,
            )
