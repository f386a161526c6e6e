"""Every verb on worker processes gives the bytes of one process; the processes are real."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from two_layers import SAMPLES, write_two_layers
from waiting_pool import start_at_once

import ptq
from ptq.core.errors import DataError, UsageError
from ptq.core.run_options import RunOptions
from ptq.data.splits import SampleOptions
from ptq.data.workers import run_on_threads, sharing_gain, worker_pool
from ptq.data.workers.run_part import run_part
from ptq.data.workers.start_workers import start_workers, stop_workers_at_end
from ptq.evaluation.runs.reference import ReferenceOutputs
from ptq.evaluation.runs.session_cache import SessionCache
from ptq.kernels import thread_pool
from ptq.kernels.thread_pool import map_ahead
from ptq.model.graph import Graph
from ptq.model.open import open_model
from ptq.observers.calibration_file import Calibration
from ptq.optimization.job import open_job
from ptq.optimization.mixed_precision.knee.decisions import count_decisions
from ptq.optimization.options import QuantizeOptions
from ptq.optimization.self_check.checks import CONFIRMING_SHALLOW, CheckReference, check_graph
from ptq.rewrite.prepare.prepare import prepare
from ptq.solver.quantizer import CalibratedModel, QuantizedModel

pytestmark = pytest.mark.usefixtures("native_sums_in_module")


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
    assert (
        "a worker process ended early" in caplog.text or stage != "calibrating"
    )  # it may have had no part
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
        "from ptq.data.workers.worker_pool import ProcessPool\n"
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


def test_compare_finds_the_same_on_one_two_and_three_workers(place: Path, tmp_path: Path) -> None:
    quantize(place, place / "files").save(tmp_path / "int8.onnx")
    found = [
        ptq.compare(
            place / "model.onnx", tmp_path / "int8.onnx", place / "files", threads=1, workers=count
        )
        for count in (1, 2, 3)
    ]
    timeless = [replace(each, speed=1.0, speed_interval=(1.0, 1.0)) for each in found]
    assert timeless[0] == timeless[1] == timeless[2]
    assert multiprocessing.active_children() == []


def _count_parts(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The parts that go to other processes, as they go."""
    sent: list[object] = []
    submit = worker_pool.WorkerProcess.submit

    def count(worker: Any, job: Any, part: bytes) -> Any:
        sent.append(job)
        return submit(worker, job, part)

    monkeypatch.setattr(worker_pool.WorkerProcess, "submit", count)
    return sent


def _list_threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many threads ran the parts of each set of samples, as they start."""
    found: list[int] = []

    def map_and_count(job: Any, items: Any, threads: int) -> Any:
        found.append(threads)
        return map_ahead(job, items, threads)

    monkeypatch.setattr(thread_pool, "_count_usable_cpus", lambda: 8)
    monkeypatch.delenv("PTQ_THREADS", raising=False)
    monkeypatch.setattr(run_on_threads, "map_ahead", map_and_count)
    return found


def test_the_self_check_finds_the_same_on_one_two_and_three_workers(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = quantize(place, place / "files")
    graph, source = Graph.from_proto(made.model), open_model(place / "model.onnx")
    samples = list(SampleOptions().open(place / "files", source))[:CONFIRMING_SHALLOW]
    threads = _list_threads(monkeypatch)

    @stop_workers_at_end
    def check(workers: int) -> str:
        sessions = SessionCache(start_workers(RunOptions(threads=1), workers, None))
        model = CalibratedModel("m", source, prepare(source), Calibration("", 0, {}))
        reference = ReferenceOutputs(samples, sessions.run_float(model, samples))
        against = CheckReference(source, reference, sessions, lambda: None)
        failure = check_graph(graph, against, 200.0)
        assert failure is not None
        assert failure.error_shares is not None
        return f"{failure} {failure.error_shares.tobytes().hex()}"

    one = check(1)
    assert threads == []
    assert check(2) == one == check(3)
    assert {*threads} == {2, 3}


def test_changed_decisions_are_the_same_on_one_two_and_three_workers(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = quantize(place, place / "files")
    threads = _list_threads(monkeypatch)

    @stop_workers_at_end
    def share(workers: int) -> float | None:
        run = start_workers(RunOptions(threads=1), workers, None)
        job = open_job(
            place / "model.onnx", place / "files", None, SampleOptions(),
            QuantizeOptions(task="classify"), run, search=False,
        )  # fmt: skip
        coarse = QuantizedModel.__new__(QuantizedModel)
        object.__setattr__(coarse, "quantized_graph", Graph.from_proto(made.model))
        found = count_decisions(job, coarse, SessionCache(run))
        return None if found is None else found.changed

    one = share(1)
    assert one is not None
    assert threads == []
    assert share(2) == one == share(3)
    assert {*threads} == {2, 3}


@pytest.mark.parametrize("least", [0.0, 1e9])
def test_a_stage_that_is_shorter_than_opening_its_job_stays_in_one_process(
    place: Path, monkeypatch: pytest.MonkeyPatch, least: float, tmp_path: Path
) -> None:
    monkeypatch.setattr(sharing_gain, "MIN_GAIN", least)
    whole = content(quantize(place, place / "files"), tmp_path)
    sent = _count_parts(monkeypatch)
    assert content(quantize(place, place / "files", workers=2), tmp_path) == whole
    assert bool(sent) == (least == 0)
