"""Every verb on worker processes gives the bytes of one process; the processes are real."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from two_layers import SAMPLES, write_two_layers
from waiting_pool import start_at_once

import ptq
from ptq.core.errors import DataError, UsageError
from ptq.data import worker_pool
from ptq.data.run_part import run_part


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network with two layers, and its samples as files and as rows."""
    return write_two_layers(tmp_path_factory.mktemp("workers"))


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers start without delay, and the first stage waits for them."""
    start_at_once(monkeypatch)


class Children:
    """A progress callback that counts the processes of a run, and may act at a step of a stage."""

    def __init__(self, stage: str = "", act: Callable[[], None] = lambda: None) -> None:
        self.most, self._stage, self._act, self._steps = 0, stage, act, 0

    def __call__(self, stage: str, total: int | None) -> Callable[[], None]:
        def step() -> None:
            self.most = max(self.most, len(multiprocessing.active_children()))
            if stage == self._stage:
                self._steps += 1
                if self._steps == 3:
                    self._act()

        return step


def quantize(place: Path, data: Any, **options: Any) -> ptq.Result:
    return ptq.quantize(place / "model.onnx", data, threads=1, force=True, **options)


def content(result: ptq.Result, folder: Path) -> tuple[bytes, str, object]:
    result.save(folder / "made.onnx")
    return (folder / "made.onnx").read_bytes(), result.plan.to_json(), result.report.evaluation


def open_data(place: Path, kind: str) -> Any:
    if kind == "arrays":
        return dict(np.load(place / "rows.npz"))
    return place / kind


@pytest.mark.parametrize("kind", ["files", "rows.npz", "arrays"])
def test_quantize_makes_the_same_bytes_on_two_and_three_workers(
    place: Path, kind: str, tmp_path: Path
) -> None:
    data = open_data(place, kind)
    whole = content(quantize(place, data), tmp_path)
    for workers in (2, 3) if kind == "files" else (2,):
        children = Children()
        found = content(quantize(place, data, workers=workers, progress=children), tmp_path)
        assert found == whole
        assert children.most == workers - 1
    assert multiprocessing.active_children() == []


def test_a_bad_sample_is_skipped_on_workers_as_in_one_process(place: Path, tmp_path: Path) -> None:
    for path in (place / "files").iterdir():
        (tmp_path / path.name).symlink_to(path)
    for name in ("007.npz", "031.npz"):
        (tmp_path / name).unlink()
        (tmp_path / name).write_bytes(b"damaged")
    options = {"skip_bad_samples": True}
    (tmp_path / "made").mkdir()
    whole, other = (quantize(place, tmp_path, workers=workers, **options) for workers in (1, 2))
    assert content(other, tmp_path / "made") == content(whole, tmp_path / "made")
    assert sorted(other.report.skipped) == sorted(whole.report.skipped)
    with pytest.raises(DataError, match=r"007\.npz"):
        quantize(place, tmp_path, workers=2)


@pytest.mark.parametrize("engine", ["ort", "integer"])
def test_evaluate_verify_and_sensitivity_find_the_same_on_two_workers(
    place: Path, engine: Any, tmp_path: Path
) -> None:
    quantize(place, place / "files").save(tmp_path / "int8.onnx")
    options: dict[str, Any] = {"threads": 1}

    def evaluate(workers: int) -> object:
        return ptq.evaluate(
            tmp_path / "int8.onnx", place / "files", against=place / "model.onnx",
            engine=engine, workers=workers, **options,
        )  # fmt: skip

    assert evaluate(2) == evaluate(1)
    if engine == "ort":
        one, two = (
            ptq.verify(tmp_path / "int8.onnx", place / "rows.npz", workers=w, **options)
            for w in (1, 2)
        )
        assert two == one
        assert two.samples == SAMPLES
        ranked = [
            ptq.sensitivity(place / "model.onnx", place / "files", workers=w, measure=1, **options)
            for w in (1, 2)
        ]
        assert ranked[0] == ranked[1]


@pytest.mark.parametrize("stage", ["calibrating", "rounding", "evaluating"])
def test_a_worker_that_is_killed_changes_nothing(
    place: Path, stage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = content(quantize(place, place / "files"), tmp_path)

    def kill() -> None:
        os.kill(multiprocessing.active_children()[0].pid or 0, signal.SIGKILL)

    found = quantize(place, place / "files", workers=2, progress=Children(stage, kill))
    assert content(found, tmp_path) == whole
    assert "a worker process ended early" in caplog.text or stage == "evaluating"
    assert multiprocessing.active_children() == []


def test_a_sample_that_one_worker_cannot_read_runs_in_this_process(
    place: Path, tmp_path: Path
) -> None:
    """A file that only this process has open: others do not find it."""
    (tmp_path / "data").mkdir()
    for path in (place / "files").iterdir():
        (tmp_path / "data" / path.name).symlink_to(path)
    whole = content(quantize(place, place / "files"), tmp_path)
    first = tmp_path / "data" / "000.npz"
    first.unlink()
    copy = tmp_path / "copy.npz"
    copy.write_bytes((place / "files" / "000.npz").read_bytes())
    with copy.open("rb") as file:
        first.symlink_to(f"/proc/self/fd/{file.fileno()}")
        assert content(quantize(place, tmp_path / "data", workers=2), tmp_path)[0] == whole[0]


def test_a_disk_that_is_full_is_one_error(tmp_path: Path) -> None:
    script = (
        "import resource, ptq\n"
        "from ptq.data.worker_pool import ProcessPool\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "pool = ProcessPool(2)\n"
        "try:\n"
        "    pool.share(bytes(5000))\n"
        "except ptq.PtqError as error:\n"
        "    print(error)\n"
        "pool.stop()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert "cannot write what worker processes need (" in done.stdout
    assert done.stdout.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_job_that_changed_on_the_disk_is_not_opened(tmp_path: Path) -> None:
    pool = worker_pool.ProcessPool(2)
    job = pool.share("a job")
    Path(job.path).write_bytes(b"another")
    found = run_part(job, (), b"")
    pool.stop()
    assert isinstance(found, ptq.PtqError)
    assert "changed since this run has written it" in str(found)


def test_a_short_run_starts_no_process(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "ALONE_SECONDS", 3600)
    monkeypatch.setattr(worker_pool, "ProcessPoolExecutor", None)
    monkeypatch.setattr(worker_pool.ProcessPool, "stop", lambda _: None)
    assert quantize(place, place / "files", workers=2).plan.tensors


def test_a_number_of_workers_below_one_is_refused(place: Path) -> None:
    with pytest.raises(UsageError, match="workers 0 is not a whole number of at least 1"):
        quantize(place, place / "files", workers=0)
