"""Outputs that are known are not computed again; those of a sample that has changed are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ptq.core.run_options import DEFAULT_RUN
from ptq.data import InputSpec, Samples, open_samples
from ptq.evaluation.runs.run_forms import run_forms

ROWS = np.arange(12, dtype=np.float32).reshape(12, 1)
COUNT = 6
"""How many samples are known: one and a half parts of four."""


class DoublingEngine:
    """Doubles its input, and keeps what it got."""

    def __init__(self) -> None:
        self.seen = list[float]()

    def __call__(self, feed: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        self.seen += feed["x"].ravel().tolist()
        return [feed["x"] * 2]


def open_rows() -> Samples:
    return open_samples({"x": ROWS}, [InputSpec("x", np.dtype(np.float32), (1, 1))])


def run(known: dict[str, tuple[bytes, list[NDArray[Any]]]]) -> tuple[list[float], list[float]]:
    """The outputs, and what the engine computed."""
    engine = DoublingEngine()
    found = run_forms(
        {"float": engine}, open_rows(), 1, {"float": lambda: engine}, DEFAULT_RUN, {"float": known}
    )
    return [float(outputs["float"][0][0, 0]) for _, outputs in found], engine.seen


def test_outputs_that_are_known_of_a_whole_part_are_taken() -> None:
    known = {
        sample.name: (sample.digest, [np.full((1, 1), -1, np.float32)])
        for sample in list(open_rows())[:COUNT]
    }
    outputs, seen = run(known)
    assert outputs == [-1.0] * 4 + [2.0 * k for k in range(4, 12)]
    assert seen == [float(k) for k in range(4, 12)]


@pytest.mark.parametrize("digest", [b"", b"another"])
def test_outputs_of_a_sample_with_another_digest_are_computed(digest: bytes) -> None:
    known = {sample.name: (digest, [np.zeros((1, 1))]) for sample in open_rows()}
    outputs, seen = run(known)
    assert outputs == [2.0 * k for k in range(12)]
    assert len(seen) == 12
