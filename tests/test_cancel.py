"""Cancelling: the folder before and the list of child processes are the oracle."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from jobs import FEW, MODEL
from waiting_pool import start_at_once

import ptq
from ptq.core.run_options import Progress

EQUALIZING = ("measuring channels", "comparing candidates")
STAGES = (
    *EQUALIZING, "calibrating", "choosing ranges", "rounding", "reading samples to search on", "searching",
    "checking", "evaluating",
)  # fmt: skip


def _cancel_at(stage: str, reached: list[str], answer: Callable[[], bool | None]) -> Progress:
    def progress(name: str, steps: int | None) -> Callable[[], bool | None]:
        del steps
        if name == stage:
            reached.append(name)
            return answer
        return lambda: None

    return progress


def _fail() -> bool:
    raise ValueError("the window was closed")


@pytest.mark.parametrize("stage", STAGES)
def test_a_job_is_cancelled_in_each_stage_and_leaves_no_file_and_no_process(
    stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    reached = list[str]()
    with pytest.raises(ptq.Cancelled, match=rf"cancelled by the progress callback \({stage}\)"):
        ptq.quantize(
            MODEL, FEW, threads=1, max_drop=0.0, cache=str(tmp_path), equalize=stage in EQUALIZING,
            progress=_cancel_at(stage, reached, lambda: False),
        )  # fmt: skip
    assert reached == [stage]
    assert list(tmp_path.iterdir()) == []
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("stage", ["attributing the error", "measuring"])
def test_sensitivity_is_cancelled(stage: str) -> None:
    with pytest.raises(ptq.Cancelled, match=stage):
        ptq.sensitivity(
            MODEL, FEW, threads=1, equalize=False, progress=_cancel_at(stage, [], lambda: False)
        )


def test_an_exception_of_a_callback_is_the_cause_of_cancelled() -> None:
    with pytest.raises(
        ptq.Cancelled, match=r"ValueError .calibrating.: the window was closed"
    ) as e:
        ptq.calibrate(MODEL, FEW, threads=1, progress=_cancel_at("calibrating", [], _fail))
    assert isinstance(e.value.__cause__, ValueError)
    assert isinstance(e.value, ptq.PtqError)


def test_an_exception_at_the_start_of_a_stage_cancels_too() -> None:
    def progress(stage: str, steps: int | None) -> Callable[[], None]:
        raise RuntimeError(f"{stage} {steps}")

    with pytest.raises(ptq.Cancelled, match=r"RuntimeError .calibrating.: calibrating 24"):
        ptq.calibrate(MODEL, FEW, threads=1, progress=progress)


def test_cancelled_of_the_user_arrives_unchanged() -> None:
    def stop() -> None:
        raise ptq.Cancelled("stopped by the user")

    with pytest.raises(ptq.Cancelled, match=r"^stopped by the user$"):
        ptq.calibrate(MODEL, FEW, threads=1, progress=_cancel_at("calibrating", [], stop))


def test_none_and_true_go_on() -> None:
    answers = iter([None, True] * 12)
    progress = _cancel_at("calibrating", [], lambda: next(answers))
    assert ptq.calibrate(MODEL, FEW, threads=1, progress=progress).samples == 24


def test_worker_processes_end_when_calibration_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_at_once(monkeypatch)
    onnx.save(MODEL, tmp_path / "model.onnx")
    np.savez(tmp_path / "data.npz", **FEW)
    with pytest.raises(ptq.Cancelled, match=r"calibrating"):
        ptq.calibrate(
            tmp_path / "model.onnx", tmp_path / "data.npz", threads=1, workers=2,
            progress=_cancel_at("calibrating", [], lambda: False),
        )  # fmt: skip
    assert multiprocessing.active_children() == []
    assert {p.name for p in tmp_path.iterdir()} == {"model.onnx", "data.npz"}


def test_a_checkpoint_of_a_cancelled_calibration_is_continued_to_the_same_bytes(
    tmp_path: Path,
) -> None:
    whole = ptq.calibrate(MODEL, FEW, threads=1)
    steps = iter([True] * 10 + [False])
    state = tmp_path / "state"
    with pytest.raises(ptq.Cancelled):
        ptq.calibrate(
            MODEL, FEW, threads=1, checkpoint=state,
            progress=_cancel_at("calibrating", [], lambda: next(steps)),
        )  # fmt: skip
    assert {p.name for p in tmp_path.iterdir()} <= {"state"}
    assert ptq.calibrate(MODEL, FEW, threads=1, checkpoint=state).to_bytes() == whole.to_bytes()
