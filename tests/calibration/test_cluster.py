"""Calibration on a real Dask cluster of processes, on executors and with faults; one process is the oracle."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from cluster import DaskProcesses, run_dask
from networks import build_network, gaussian_array
from parts import CONV, WB
from waiting_pool import start_at_once

import ptq
from ptq.core.errors import DataError, PtqError, StatsError, UsageError
from ptq.data.workers import dask_adapter, ray_adapter
from ptq.observers.calibration_file import CHECKPOINT_MAGIC

MODEL = build_network(CONV + "y = Relu(c)", {"x": ("n", 3, 8, 8)}, **WB)
SAMPLES = 200


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cluster")
    onnx.save(MODEL, folder / "model.onnx")
    (folder / "data").mkdir()
    for number, row in enumerate(gaussian_array(SAMPLES, 1, 3, 8, 8)):
        np.savez(folder / "data" / f"{number:03}.npz", x=row)
    return folder


@pytest.fixture(scope="module")
def whole(place: Path) -> bytes:
    return ptq.calibrate(MODEL, place / "data", threads=1).to_bytes()


@pytest.fixture(scope="module")
def dask(place: Path) -> Iterator[DaskProcesses]:
    with run_dask(place, 2) as found:
        yield found


def calibrate(place: Path, cluster: object, **options: Any) -> ptq.Calibration:
    return ptq.calibrate(MODEL, place / "data", threads=1, cluster=cluster, **options)


def at_step(number: int, action: Callable[[], object]) -> Callable[..., Callable[[], object]]:
    """A callback that acts at the end of a number of steps."""
    steps = iter(range(1, 10**6))
    return lambda stage, total: lambda: action() if next(steps) == number else True


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers start without delay, and the first stage waits for them."""
    start_at_once(monkeypatch)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_workers_count_the_bytes_of_one_process(place: Path, whole: bytes, workers: int) -> None:
    model = str(place / "model.onnx")
    found = ptq.calibrate(model, place / "data", threads=1, workers=workers)
    assert found.to_bytes() == whole


def test_a_short_calibration_starts_no_process_and_gives_the_same_bytes(
    place: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ptq.data.workers.worker_pool.ALONE_SECONDS", 3600)
    monkeypatch.setattr("ptq.data.workers.worker_pool.ProcessPoolExecutor.submit", None)
    found = ptq.calibrate(str(place / "model.onnx"), place / "data", threads=1, workers=2)
    assert found.to_bytes() == whole


def test_any_executor_gives_the_bytes_of_one_process(place: Path, whole: bytes) -> None:
    with ThreadPoolExecutor(2) as threads:
        assert calibrate(place, threads).to_bytes() == whole
    with ProcessPoolExecutor(2, get_context("spawn")) as processes:
        assert calibrate(place, processes).to_bytes() == whole


@pytest.mark.remote
def test_a_dask_cluster_gives_the_bytes_of_one_process(
    place: Path, whole: bytes, dask: DaskProcesses
) -> None:
    steps: list[int] = []
    progress = lambda stage, total: lambda: steps.append(total)  # noqa: E731
    assert calibrate(place, dask.address, progress=progress).to_bytes() == whole
    assert steps == [SAMPLES] * SAMPLES
    shards = [calibrate(place, dask.address, shard=(k, 2)) for k in range(2)]
    assert ptq.merge_statistics(shards).to_bytes() == whole


class OutOfOrder(Executor):
    """Runs calls at once, and each twice, as an executor that repeats a call whose result was lost."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Future[Any], Any]] = []

    def submit(self, function: Any, /, *arguments: Any, **_: Any) -> Future[Any]:
        future: Future[Any] = Future()
        function(*arguments)
        self._waiting.append((future, function(*arguments)))
        if len(self._waiting) == 2:
            for waiting, result in reversed(self._waiting):
                waiting.set_result(result)
            self._waiting.clear()
        return future


def test_a_repeated_shard_counts_once_and_the_order_of_results_leaves_no_trace(
    place: Path, whole: bytes
) -> None:
    executor = OutOfOrder()
    executor._max_workers = 8
    found = calibrate(place, executor)
    assert (found.samples, found.to_bytes()) == (SAMPLES, whole)


@pytest.mark.remote
def test_a_worker_killed_before_and_after_it_returned_changes_nothing(
    place: Path, whole: bytes
) -> None:
    with run_dask(place, 2) as dask:
        dask.workers[0].kill()  # before
        assert calibrate(place, dask.address).to_bytes() == whole
        extra = dask.start_worker()

        def kill() -> bool:  # after it returned results, and while it works
            extra.kill()
            return True

        assert calibrate(place, dask.address, progress=at_step(40, kill)).to_bytes() == whole


@pytest.mark.usefixtures("at_once")
def test_a_process_killed_while_it_works_changes_nothing(
    place: Path, whole: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    import multiprocessing

    def kill() -> bool:
        os.kill(multiprocessing.active_children()[0].pid or 0, signal.SIGKILL)
        return True

    found = ptq.calibrate(
        str(place / "model.onnx"), place / "data", threads=1, workers=2, progress=at_step(1, kill)
    )
    assert found.to_bytes() == whole
    assert "a worker process ended early; its samples run again" in caplog.text
    assert multiprocessing.active_children() == []


@pytest.mark.remote
def test_a_scheduler_that_ends_is_one_error_and_the_next_run_continues(
    place: Path, whole: bytes, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    with run_dask(place, 2) as dask:

        def kill() -> bool:
            assert dask.scheduler is not None
            dask.scheduler.kill()
            dask.scheduler.wait()
            return True

        with pytest.raises(PtqError, match=f"^cluster {dask.address}: ") as caught:
            calibrate(place, dask.address, checkpoint=state, progress=at_step(1, kill))
        assert "\n" not in str(caught.value)
        for worker in dask.workers:
            worker.kill()
        dask.start_scheduler()
        dask.start_worker()
        counted = ptq.observers.calibration_file.from_bytes(
            state.read_bytes().partition(b"\n")[2], "state"
        )
        assert 0 < counted.samples < SAMPLES
        assert calibrate(place, dask.address, checkpoint=state).to_bytes() == whole


@pytest.mark.remote
def test_a_scheduler_that_does_not_answer_is_one_error_and_the_next_run_continues(
    place: Path, whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_adapter, "_SILENT_SECONDS", 3)
    state = tmp_path / "state"
    with run_dask(place, 2) as dask:
        assert dask.scheduler is not None
        scheduler = dask.scheduler

        def freeze() -> bool:
            scheduler.send_signal(signal.SIGSTOP)
            return True

        with pytest.raises(PtqError, match="the scheduler has not answered for 3 s; see its log"):
            calibrate(place, dask.address, checkpoint=state, progress=at_step(1, freeze))
        scheduler.send_signal(signal.SIGCONT)
        assert calibrate(place, dask.address, checkpoint=state).to_bytes() == whole


@pytest.mark.remote
def test_a_worker_that_is_stopped_is_one_error(
    place: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_adapter, "CONNECT_SECONDS", 4)
    monkeypatch.setattr(dask_adapter, "_SILENT_SECONDS", 3)
    with run_dask(place, 2) as dask:
        assert calibrate(place, dask.address).to_bytes() == whole
        dask.workers[0].send_signal(signal.SIGSTOP)
        with pytest.raises(PtqError, match="a worker has not taken its job for 3 s; end that"):
            calibrate(place, dask.address)
        dask.workers[0].kill()
        assert calibrate(place, dask.address).to_bytes() == whole


@pytest.mark.usefixtures("at_once")
def test_a_checkpoint_of_processes_is_continued_to_the_same_bytes(
    place: Path, whole: bytes, tmp_path: Path
) -> None:
    model, state = str(place / "model.onnx"), tmp_path / "state"
    options = {"threads": 1, "workers": 2, "checkpoint": state}
    with pytest.raises(ptq.Cancelled):
        ptq.calibrate(model, place / "data", progress=at_step(40, lambda: False), **options)
    assert ptq.calibrate(model, place / "data", **options).to_bytes() == whole
    assert ptq.calibrate(model, place / "data", **options).to_bytes() == whole
    other = place / "data" / "000.npz"
    for keep, asked in ((5, "5 samples"), ("2MB", "2MB of samples")):
        with pytest.raises(StatsError, match=f"keeps up to 0 samples, not {asked}; ask for"):
            ptq.calibrate(model, place / "data", keep_samples=keep, **options)
    with pytest.raises(StatsError, match="this checkpoint belongs to other samples"):
        ptq.calibrate(model, place / "data", samples=100, **options)
    other_model = str(tmp_path / "other.onnx")
    onnx.save(build_network("y = Relu(x)", {"x": ("n", 3, 8, 8)}), other_model)
    with pytest.raises(StatsError, match="this checkpoint belongs to another model"):
        ptq.calibrate(other_model, other.parent, **options)
    state.write_bytes(b"other")
    with pytest.raises(StatsError, match="is not a checkpoint of workers; name another file"):
        ptq.calibrate(model, place / "data", **options)
    state.write_bytes(CHECKPOINT_MAGIC + b"0" * 64)
    with pytest.raises(StatsError, match="of one process; continue without workers, or name"):
        ptq.calibrate(model, place / "data", **options)


@pytest.mark.usefixtures("at_once")
def test_a_checkpoint_of_processes_is_refused_if_a_counted_sample_has_changed(
    place: Path, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    for path in sorted((place / "data").iterdir())[:40]:
        (tmp_path / "data" / path.name).write_bytes(path.read_bytes())
    model = str(place / "model.onnx")
    options = {"threads": 1, "workers": 2, "checkpoint": tmp_path / "state", "keep_samples": 3}
    whole = ptq.calibrate(model, tmp_path / "data", **options).to_bytes()
    assert ptq.calibrate(model, tmp_path / "data", **options).to_bytes() == whole
    np.savez(tmp_path / "data" / "000.npz", x=np.zeros((1, 3, 8, 8), np.float32))
    with pytest.raises(StatsError, match="belongs to other samples, of the same names"):
        ptq.calibrate(model, tmp_path / "data", **options)


@pytest.mark.remote
def test_a_sample_that_fails_on_a_worker_is_one_line(
    place: Path, dask: DaskProcesses, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    for path in sorted((place / "data").iterdir())[:40]:
        (tmp_path / "data" / path.name).write_bytes(path.read_bytes())
    (tmp_path / "data" / "017.npz").write_bytes(b"damaged")
    with pytest.raises(DataError, match=r"^on a worker: .*017\.npz"):
        calibrate(tmp_path, dask.address)
    one = ptq.calibrate(MODEL, tmp_path / "data", threads=1, skip_bad_samples=True)
    found = calibrate(tmp_path, dask.address, skip_bad_samples=True)
    assert found.to_bytes() == one.to_bytes()
    assert [name for name, _ in found.skipped] == ["017.npz"]


@pytest.mark.remote
def test_a_disk_that_is_full_on_one_worker_is_one_line_that_names_the_folder(
    place: Path, tmp_path: Path
) -> None:
    with run_dask(place, 1) as dask:
        dask.start_worker_on_full_disk(20_000)
        wait = time.monotonic() + 60
        from distributed import Client

        with Client(dask.address, set_as_default=False) as client:
            while len(client.nthreads()) < 2 and time.monotonic() < wait:
                time.sleep(0.1)
        with pytest.raises(PtqError, match=f"^on a worker: .*{tmp_path}") as caught:
            calibrate(place, dask.address, cache=tmp_path)
        assert "\n" not in str(caught.value)


@pytest.mark.remote
def test_a_callable_that_workers_cannot_import_is_refused_with_the_reason(
    place: Path, dask: DaskProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_here.py").write_text(
        "import numpy as np\nfeeds = lambda: iter([np.zeros((4, 3, 8, 8), np.float32)])\n"
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        UsageError, match="on a worker: only_here:feeds: cannot import it"
    ) as caught:
        ptq.calibrate(MODEL, "only_here:feeds", threads=1, cluster=dask.address)
    assert "\n" not in str(caught.value)


@pytest.mark.remote
def test_cancelling_ends_the_job_and_leaves_the_cluster(place: Path, whole: bytes, dask) -> None:
    with pytest.raises(ptq.Cancelled):
        calibrate(place, dask.address, progress=at_step(1, lambda: False))
    assert calibrate(place, dask.address).to_bytes() == whole


@pytest.mark.remote
def test_an_address_that_does_not_answer_or_is_none_is_one_line(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed", reason="distributed is not installed")
    monkeypatch.setattr(dask_adapter, "CONNECT_SECONDS", 1)
    with pytest.raises(UsageError, match="does not answer within 1 s") as caught:
        calibrate(place, "tcp://127.0.0.1:9")
    assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="is not an address; write tcp://host:port"):
        calibrate(place, "somewhere")
    with pytest.raises(UsageError, match="has its own workers"):
        calibrate(place, "tcp://127.0.0.1:9", workers=2)


@pytest.mark.remote
def test_an_encrypted_cluster_without_certificates_names_the_settings(
    place: Path, tmp_path: Path
) -> None:
    pytest.importorskip("distributed", reason="distributed is not installed")
    import dask

    settings = r"; set Dask's distributed\.comm\.tls\.ca-file, client\.cert and client\.key"
    address, tls = "tls://127.0.0.1:9", "distributed.comm.tls."
    with pytest.raises(UsageError, match=f"^cluster {address}: no certificate is set{settings}"):
        calibrate(place, address)
    names = {tls + name: str(tmp_path / "none.pem") for name in ("ca-file", "client.cert")}
    with (
        dask.config.set(names),
        pytest.raises(UsageError, match=f"a file does not exist{settings}"),
    ):
        calibrate(place, address)
    (tmp_path / "none.pem").write_text("no certificate")
    with dask.config.set(names), pytest.raises(UsageError, match=f"refuses the certi.*{settings}"):
        calibrate(place, address)


@pytest.mark.parametrize(("scheme", "package"), [("tcp", "distributed"), ("ray", "ray")])
def test_a_missing_package_is_one_line_with_the_command(
    place: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match=r'not installed; pip install "onnx-ptq\[(dask|ray)\]"$'):
        calibrate(place, f"{scheme}://127.0.0.1:9")


@pytest.mark.remote
def test_a_worker_without_a_package_is_refused_at_once(place: Path, tmp_path: Path) -> None:
    shadow = "raise ModuleNotFoundError(\"No module named 'onnx'\")"
    (tmp_path / "onnx.py").write_text(shadow)
    root = str(Path(__file__).resolve().parents[2])
    with run_dask(place, 1) as dask:
        from distributed import Client

        dask.start_worker(PYTHONPATH=os.pathsep.join([str(tmp_path), root]))
        with Client(dask.address, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
        reason = r"worker tcp://\S+ has no module onnx; pip install onnx-ptq there$"
        with pytest.raises(UsageError, match=reason):
            calibrate(place, dask.address)


def refuse_twice(monkeypatch: pytest.MonkeyPatch, error: Exception) -> list[str]:
    """In place of Ray, a head that refuses twice; returns the addresses that were asked."""
    asked: list[str] = []

    def init(address: str) -> object:
        asked.append(address)
        if len(asked) < 3:
            raise error
        return object()

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(init=init))
    monkeypatch.setattr(ray_adapter, "_PAUSE", 0.0)
    return asked


def test_a_head_of_ray_that_refuses_while_it_starts_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = refuse_twice(monkeypatch, RuntimeError("starting"))
    ray_adapter.RayAdapter("ray://127.0.0.1:9")
    assert asked == ["ray://127.0.0.1:9"] * 3


def test_a_head_of_ray_that_refuses_for_long_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(address: str) -> object:
        raise RuntimeError("Ray of another version")

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(init=init))
    monkeypatch.setattr(ray_adapter, "CONNECT_SECONDS", -1)
    with pytest.raises(UsageError, match=r"does not answer within .* \(Ray of another version\);"):
        ray_adapter.RayAdapter("ray://127.0.0.1:9")


def test_a_head_of_ray_that_started_no_server_for_the_client_is_asked_again_whatever_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    error = ConnectionAbortedError("Initialization failure from server:\nTraceback")
    asked = refuse_twice(monkeypatch, error)
    monkeypatch.setattr(ray_adapter, "CONNECT_SECONDS", -1)
    ray_adapter.RayAdapter("ray://127.0.0.1:9")
    assert len(asked) == 3
    asked.clear()
    monkeypatch.setattr(ray_adapter, "_TRIES", 2)
    with pytest.raises(UsageError, match=r"^cluster \S+: the head started no server .* 2 tries;"):
        ray_adapter.RayAdapter("ray://127.0.0.1:9")
    assert len(asked) == 2


def test_workers_of_another_version_are_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = iter(range(10**6))

    class Mixed(ThreadPoolExecutor):
        def submit(self, function: Any, /, *arguments: Any, **_: Any) -> Future[Any]:
            monkeypatch.setattr("ptq.model.machine.maker.ORT_VERSION", f"1.{next(versions)}")
            future: Future[Any] = Future()
            future.set_result(function(*arguments))
            return future

    with Mixed(2) as executor, pytest.raises(StatsError, match="versions of onnxruntime"):
        calibrate(place, executor)


@pytest.mark.remote
def test_threads_of_a_job_do_not_outlive_it(place: Path, dask: DaskProcesses) -> None:
    calibrate(place, dask.address)
    time.sleep(0.5)
    assert [t for t in threading.enumerate() if "calibrat" in t.name] == []
