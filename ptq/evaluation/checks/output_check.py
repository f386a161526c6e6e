"""Doubts about measured outputs: NaN, numbers taken for decisions, samples that hide others, labels that fit none."""

from __future__ import annotations

from collections.abc import Iterator

from ptq.core.wording import format_decibels, plural
from ptq.evaluation.diagnosis import Diagnosis
from ptq.evaluation.drop import SOME_POINTS
from ptq.evaluation.measurements import Evaluation
from ptq.evaluation.metrics import LOSSY_DB

_FORMS = {"new": "the new model", "other": "the other model"}
"""Names of forms in a sentence; others are their own."""
MAX_APART_DB = 6.0
"""Distance of the SQNR over all samples from that of the median sample: twice the amplitude of the error."""
MAX_COMMON = 0.8
"""Classes that vary between samples leave less in common: 0.03 to 0.36 in classifiers. Landmarks of faces, eyes and
hands had 0.89 to 0.97, but one of a hand 0.69."""
MOST_POINTS = 50.0
"""Drop that the error of a good SQNR explains by no near ties of classes: more than half of the decisions."""


def diagnose_outputs(evaluation: Evaluation, model: str = "the float model") -> Iterator[Diagnosis]:
    """Diagnose outputs whose figures say little.

    Args:
        evaluation: The evaluation.
        model: What the diagnosis calls the model that gives the reference.
    """
    yield from _check_numbers(evaluation, model)
    yield from _check_decisions(evaluation)
    yield from _check_samples(evaluation)
    yield from _check_labels(evaluation)


def _check_numbers(evaluation: Evaluation, model: str) -> Iterator[Diagnosis]:
    for output, count in evaluation.undefined.items():
        yield Diagnosis(
            f"{model} gives NaN on {count} of {plural(evaluation.samples, 'sample')}, which SQNR leaves out",
            f"output {output}",
            "check these samples and their preprocessing",
            serious=True,
        )
    for form, outputs in evaluation.newly_undefined.items():
        for output, count in outputs.items():
            yield Diagnosis(
                f"{_FORMS.get(form, form)} gives NaN on {count} of {plural(evaluation.samples, 'sample')}, where "
                f"{model} gives numbers",
                f"output {output}",
                "do not use it; find the first node that gives NaN",
                serious=True,
            )


def _check_decisions(evaluation: Evaluation) -> Iterator[Diagnosis]:
    """Numbers that only look like scores: their largest stays or changes, whatever the error."""
    task = evaluation.task
    if task is None:
        return
    for form in evaluation.forms.values():
        fidelity = form.outputs.get(evaluation.head)
        if form.drop is None or fidelity is None or fidelity.other_shapes:
            continue
        few, precise = form.drop.points <= SOME_POINTS, fidelity.sqnr_db >= LOSSY_DB
        common = 0.0 if task.common is None else task.common
        sudden = task.common is not None and form.drop.points > MOST_POINTS
        if (sudden and precise) or (task.assumed and few and not precise):
            sign = f"SQNR is {format_decibels(fidelity.sqnr_db)} dB"
        elif common >= MAX_COMMON and precise and not few:
            sign = f"{100 * common:.0f} % of the scores' energy is the same on all samples"
        else:
            continue
        yield Diagnosis(
            f"{sign}, but {form.drop.points:.2f} % of its best classes change: its values may be numbers, not scores",
            f"output {evaluation.head}",
            "if they are, give task none, which measures the energy of the error",
            serious=True,
        )
        return


def _check_samples(evaluation: Evaluation) -> Iterator[Diagnosis]:
    """Samples with larger outputs than others: they alone decide the SQNR."""
    for form in evaluation.forms.values():
        fidelity = form.outputs.get(evaluation.head)
        if fidelity is None or fidelity.median_sqnr_db is None:
            continue
        if fidelity.sqnr_db > fidelity.median_sqnr_db + MAX_APART_DB:
            yield Diagnosis(
                f"SQNR is {format_decibels(fidelity.sqnr_db)} dB over all samples, but "
                f"{format_decibels(fidelity.median_sqnr_db)} dB on the median sample: samples with large outputs "
                "hide the others",
                f"output {evaluation.head}",
                "give samples of one kind at a time, or a metric that counts each alike (option metric)",
            )
            return


def _check_labels(evaluation: Evaluation) -> Iterator[Diagnosis]:
    task = evaluation.task
    other = task is not None and task.name not in ("classify", "none")
    if evaluation.unread_labels and (not other or len(evaluation.forms) == 1):
        yield Diagnosis(
            f"those of {plural(evaluation.unread_labels, 'sample')} do not fit the outputs, and are not read",
            "labels",
            "ptq reads one class a sample, from one score for each class, or from one value for classes 0 and 1",
        )
