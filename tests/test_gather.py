"""Statistics gathered by several processes; those of one process are the oracle."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from networks import feeds, network
from parts import CONV, WB

import ptq
from ptq.errors import DataError, UsageError

MODEL = network(CONV + "y = Relu(c)", {"x": ("n", 3, 8, 8)}, **WB)
FEEDS = feeds(MODEL, 5)


@pytest.fixture
def given(tmp_path: Path) -> tuple[Path, Path]:
    """A model and a folder of samples."""
    onnx.save(MODEL, tmp_path / "model.onnx")
    (tmp_path / "data").mkdir()
    for number, feed in enumerate(FEEDS):
        np.savez(tmp_path / "data" / f"{number}.npz", **feed)
    return tmp_path / "model.onnx", tmp_path / "data"


def test_two_workers_count_what_one_counts_and_skip_what_one_skips(
    given: tuple[Path, Path],
) -> None:
    model, data = given
    (data / "1.npz").write_bytes(b"")
    said: list[tuple[str, int]] = []
    one = ptq.calibrate(model, data, skip_bad_samples=True, threads=1)
    told = []

    def progress(stage: str, total: int) -> object:
        said.append((stage, total))
        return lambda: told.append(1)

    two = ptq.calibrate(model, data, workers=2, skip_bad_samples=True, threads=1, progress=progress)
    assert two.to_bytes() == one.to_bytes()
    assert [name for name, _ in one.skipped] == ["1.npz"]
    assert two.skipped == one.skipped
    assert said == [("calibrating", 5)]
    assert len(told) == 4


def test_the_error_of_a_worker_is_that_of_one_process(given: tuple[Path, Path]) -> None:
    model, data = given
    (data / "3.npz").write_bytes(b"")
    with pytest.raises(DataError, match=r"3\.npz"):
        ptq.calibrate(model, data, workers=2, threads=1)


def test_workers_need_what_can_be_told_to_them(given: tuple[Path, Path]) -> None:
    with pytest.raises(UsageError, match="as paths"):
        ptq.calibrate(MODEL, given[1], workers=2)
    with pytest.raises(UsageError, match="no checkpoint"):
        ptq.calibrate(*given, workers=2, checkpoint=os.devnull)
