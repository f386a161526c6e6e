"""Lint names a recorded preprocessing that the model's input contradicts."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from brightness import brightness_model

import ptq
from ptq.model.graph import Graph
from ptq.model.metadata import PREPROCESS
from ptq.model.node import get_dtype
from ptq.verification.lint_preprocess import check_recorded_preprocess

GOOD = {"source": "images", "size": [8, 8], "channels": "RGB", "layout": "NCHW", "scale": 1.0}


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (GOOD, ""),
        ({"source": "feeds"}, ""),
        ({**GOOD, "size": [9, 8]}, "size 9,8 does not fit input 'x'"),
        ({**GOOD, "channels": "GRAY"}, "3 channels in layout NCHW, and GRAY images have 1"),
        ({**GOOD, "mean": [1, 2]}, "cannot be used"),
    ],
)
def test_a_record_that_does_not_fit_the_input_is_a_note(record: dict[str, Any], text: str) -> None:
    graph = Graph.from_proto(brightness_model())
    graph.metadata[PREPROCESS] = json.dumps(record)
    found = list(check_recorded_preprocess(graph))
    assert len(found) == bool(text)
    for finding in found:
        assert text in finding.text
        assert (finding.severity, finding.rule) == ("note", "preprocessing")


def test_integers_at_the_border_are_the_samples_that_its_quantizers_took() -> None:
    data = {"x": np.random.default_rng(0).standard_normal((8, 3, 8, 8)).astype(np.float32)}
    made = ptq.quantize(
        brightness_model(), data, target="litert", io="int8", method="minmax", rounding="nearest", threads=1
    )  # fmt: skip
    assert get_dtype(made.graph.inputs[0]) == np.int8
    made.graph.metadata[PREPROCESS] = json.dumps(GOOD)
    assert list(check_recorded_preprocess(made.graph)) == []


def test_the_verb_lists_it_among_the_findings() -> None:
    data = {"x": np.random.default_rng(0).standard_normal((8, 3, 8, 8)).astype(np.float32)}
    made = ptq.quantize(brightness_model(), data, method="minmax", rounding="nearest", threads=1)
    made.graph.metadata[PREPROCESS] = json.dumps({**GOOD, "size": [9, 9]})
    rules = [finding.rule for finding in ptq.lint(made.model)]
    assert "preprocessing" in rules
