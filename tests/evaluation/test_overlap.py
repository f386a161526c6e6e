"""Evaluation samples that set ranges too are named; the data given are the oracle."""

from __future__ import annotations

import json

import numpy as np
import pytest
from networks import build_network, gaussian_array

import ptq

MODEL = build_network(
    "y = Gemm(x, w, b)", {"x": ("n", 8)}, w=gaussian_array(8, 4), b=gaussian_array(4)
)
DATA = gaussian_array(60, 8, seed=1)
OTHER = gaussian_array(40, 8, seed=2)


def report_of(data: np.ndarray, evaluation: np.ndarray | None) -> ptq.Report:
    return ptq.quantize(MODEL, data, eval_data=evaluation, threads=1).report


def test_s2_the_same_samples_for_both_are_on_calibration_samples() -> None:
    report = report_of(DATA, DATA[::-1].copy())
    assert report.evaluated_on == "on calibration samples"
    assert report.shared_samples == 60
    assert report.calibration_digest == report.evaluation_digest
    assert str(report.suspects[0]).startswith("evaluation samples: all of 60 samples are also")


def test_s2_an_overlap_is_counted_in_the_heading_the_warnings_and_the_json() -> None:
    report = report_of(DATA, np.concatenate([OTHER, DATA[:7]]))
    assert report.evaluated_on == "on 47 evaluation samples, 7 of them also calibration samples"
    assert str(report.suspects[0]).startswith("evaluation samples: 7 of 47 samples are also")
    assert json.loads(report.to_json())["shared_samples"] == 7


def test_repeated_samples_are_not_held_out() -> None:
    report = report_of(np.concatenate([DATA, DATA]), None)
    assert report.shared_samples > 0
    assert "samples held out from calibration, " in report.evaluated_on
    assert report.evaluated_on.endswith(f"{report.shared_samples} of them also calibration samples")


@pytest.mark.parametrize("evaluation", [OTHER, None], ids=["other", "held out"])
def test_separate_samples_are_not_named(evaluation: np.ndarray | None) -> None:
    report = report_of(DATA, evaluation)
    assert report.shared_samples == 0
    assert "also" not in report.evaluated_on
    assert report.calibration_digest != report.evaluation_digest
