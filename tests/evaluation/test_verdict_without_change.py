"""The first lines of a report: the loss that samples cannot exclude, and what the SQNR means."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from networks import build_network, gaussian_array

import ptq
from ptq.evaluation.drop import Drop
from ptq.evaluation.exports.report import Report
from ptq.evaluation.metrics import Figure
from ptq.evaluation.presentation.verdict import describe_verdict

SAMPLES = 12


@pytest.fixture(scope="module")
def report() -> Report:
    model = build_network("y = MatMul(x, w)", {"x": ("n", 8)}, w=np.eye(8, dtype=np.float32))
    rows = {"x": gaussian_array(SAMPLES, 8)}
    return ptq.quantize(model, rows, eval_data={"x": gaussian_array(SAMPLES, 8, seed=1)}).report


def first_line(report: Report, drop: Drop, figures: tuple[Figure, ...] = ()) -> str:
    assert report.evaluation is not None
    both = {n: replace(form, figures=figures) for n, form in report.evaluation.forms.items()}
    forms = {**both, "int8": replace(both["int8"], drop=drop)}
    return describe_verdict(replace(report, evaluation=replace(report.evaluation, forms=forms)))[0]


def test_the_loss_that_few_samples_cannot_exclude_is_named(report: Report) -> None:
    # by Clopper and Pearson: 1 − 0.025^(1/12)
    drop = Drop("agreement with float", 0.0, 0.0, 100 * (1 - 0.025 ** (1 / SAMPLES)), SAMPLES)
    line = first_line(report, drop)
    assert "no change in 12 samples" in line
    assert "a loss of up to 26.46 points is possible" in line
    assert "0.00 points" not in line


@pytest.mark.parametrize(
    "drop",
    [
        Drop("agreement with float", 4.0, 0.5, 9.0, SAMPLES),
        Drop("agreement with float", 0.0, 0.0, 0.0, SAMPLES),
        Drop("energy of the error", 0.0, 0.0, 1.0, SAMPLES),
        Drop("character accuracy", 0.0, -3.0, 3.0, SAMPLES),
    ],
    ids=["loss", "certain", "energy", "may gain"],
)
def test_other_figures_are_said_as_they_are(report: Report, drop: Drop) -> None:
    assert "is possible" not in first_line(report, drop)


@pytest.mark.parametrize(
    ("drop", "is_significant"),
    [
        (Drop("mAP50-95", -2.0, -3.1, -0.9, SAMPLES), True),
        (Drop("mAP50-95", 2.0, 0.9, 3.1, SAMPLES), True),
        (Drop("mAP50-95", -2.0, -4.5, 0.5, SAMPLES), False),
        (Drop("exact lines", -2.0, -4.5, 0.5, SAMPLES, p=0.2), False),
    ],
)
def test_a_change_is_significant_where_its_interval_leaves_out_none(
    report: Report, drop: Drop, is_significant: bool
) -> None:
    figures = (Figure(drop.metric, 0.3, (0.2, 0.4)),)
    line = first_line(report, drop, figures)
    assert ("no significant change" in line) != is_significant
    assert ("points" in line.split("(")[0]) == is_significant


def test_a_best_class_is_compared_only_where_classes_decide(report: Report) -> None:
    assert report.evaluation is not None
    assert "same answer as float" in describe_verdict(report)[1]
    form = report.evaluation.forms["int8"]
    outputs = {name: replace(f, agreement=None) for name, f in form.outputs.items()}
    forms = {**report.evaluation.forms, "int8": replace(form, outputs=outputs)}
    boxes = replace(report.evaluation, forms=forms)
    assert "same answer" not in "".join(describe_verdict(replace(report, evaluation=boxes)))


@pytest.mark.parametrize(
    ("target", "sqnr_db", "named"),
    [
        ("litert", 19.9, "try target litert-a16"),
        ("litert-xnnpack", 3.0, "try target litert-a16"),
        ("qnn", 15.5, "try target qnn-a16"),
        ("litert", 20.0, ""),
        ("litert-a16", 15.5, ""),
        ("ort", 15.5, ""),
    ],
)
def test_a_low_sqnr_names_the_target_with_activations_of_16_bits(
    report: Report, target: str, sqnr_db: float, named: str
) -> None:
    assert report.evaluation is not None
    form = report.evaluation.forms["int8"]
    head = report.evaluation.head
    outputs = {**form.outputs, head: replace(form.outputs[head], sqnr_db=sqnr_db)}
    forms = {**report.evaluation.forms, "int8": replace(form, outputs=outputs)}
    evaluation = replace(report.evaluation, forms=forms)
    line = describe_verdict(replace(report, target=target, evaluation=evaluation))[1]
    assert ("try target" in line) == bool(named)
    assert named in line
