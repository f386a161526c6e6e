"""A model that gets hardly any label right before it is changed: no loss can show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ptq.evaluation.diagnosis import Diagnosis
from ptq.evaluation.measurements import FormMetrics

MIN_SHARE = 0.01
"""A trained model has more of mAP50-95 or exact lines. Where labels do not match its outputs, it has next to none."""


def check_baseline(reference: FormMetrics) -> Diagnosis | None:
    """What a reference with hardly any label right shows; None if it has figures enough.

    Args:
        reference: The reference form, measured on labelled boxes or texts; its first figure is that of the drop.
    """
    figure = next(iter(reference.figures), None)
    if figure is None or figure.value >= MIN_SHARE:
        return None
    return Diagnosis(
        f"{figure.name} of the reference is {100 * figure.value:.2f} %, so that no loss can show: "
        "labels do not match its outputs",
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
