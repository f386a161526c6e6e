"""A model that gets hardly any label right before it is changed: no loss can show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ptq.evaluation.diagnosis import Diagnosis
from ptq.evaluation.measurements import FormMetrics
from ptq.evaluation.tasks.ctc import CHARACTER_ERRORS

MIN_SHARE = 0.01
"""A trained model has more of mAP50-95 or exact lines. Where labels do not match its outputs, it has next to none."""

MAX_ERRORS = 0.5
"""Texts that do not match have a greater character error rate."""


def check_baseline(reference: FormMetrics) -> Diagnosis | None:
    """What a reference with hardly any label right shows; None if it has figures enough.

    Args:
        reference: The reference form, measured on labelled boxes or texts; its first figure is that of the drop.
    """
    figure = next(iter(reference.figures), None)
    if figure is None or figure.value >= MIN_SHARE:
        return None
    found = (
        f"{figure.name} of the reference is {100 * figure.value:.2f} %, so that no loss can show"
    )
    errors = next((f.value for f in reference.figures if f.name == CHARACTER_ERRORS), 1.0)
    if errors <= MAX_ERRORS:
        return Diagnosis(
            f"{found}: at a character error rate of {100 * errors:.2f} %, hardly any line is without an error",
            "labels",
            "give shorter lines, or a metric that counts characters (option metric)",
            serious=True,
        )
    return Diagnosis(
        f"{found}: labels do not match its outputs",
        "labels",
        "check that the labels are those of the samples and of the model's classes, and that samples are prepared as "
        "in training",
        serious=True,
    )


def doubt_drops(forms: Mapping[str, FormMetrics], found: Diagnosis) -> dict[str, FormMetrics]:
    """The same forms, whose drops decide no budget."""
    return {
        name: form
        if form.drop is None
        else replace(form, drop=replace(form.drop, doubt=found.what))
        for name, form in forms.items()
    }
