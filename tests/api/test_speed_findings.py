"""Reasons for slow integers stand in the report of a result that gains little speed, and in no other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx.parser
import pytest

import ptq
from ptq.api import speed_findings
from ptq.api.speed_findings import LITTLE_SPEED, add_speed_findings


def quantize_product() -> ptq.Result:
    """A product of one row at a time."""
    weight = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> f (float[N, 64] x) => (float[N, 64] y) '
        "{ y = MatMul(x, w) }"
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    x = np.random.default_rng(1).normal(size=(60, 64)).astype(np.float32)
    return ptq.quantize(model, {"x": x}, force=True, effort="fast", prefer="speed")


@pytest.fixture(scope="module")
def result() -> ptq.Result:
    return quantize_product()


def test_a_result_of_little_speed_says_why(result: ptq.Result) -> None:
    report = add_speed_findings(replace(result.report, speed=0.8), result.graph)
    assert all(reason.startswith("speed 0.80× float: ") for reason in report.slow)
    assert any("at most 4 rows at once" in reason for reason in report.slow)
    assert set(report.slow) <= set(report.notes)
    assert "few rows" in report.slow_causes
    assert len(report.slow_causes) == len(report.slow)


@pytest.mark.parametrize("speed", [LITTLE_SPEED, 3.0, None])
def test_a_result_that_gains_enough_says_nothing(result: ptq.Result, speed: float | None) -> None:
    report = replace(result.report, speed=speed)
    assert add_speed_findings(report, result.graph) is report


def test_the_speed_in_other_runtimes_is_unknown(result: ptq.Result) -> None:
    report = replace(result.report, speed=0.8, target="litert")
    assert add_speed_findings(report, result.graph) is report


def test_every_quantization_asks_for_the_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed_findings, "LITTLE_SPEED", 1e9)
    report = quantize_product().report
    assert any("at most 4 rows" in reason for reason in report.slow)
    assert "at most 4 rows" in report.to_markdown()
    assert "at most 4 rows" in report.to_html()
