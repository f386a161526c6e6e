"""Every verb on a real Dask cluster of two processes, and on executors, gives what one process gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cluster import DaskProcesses, run_dask
from command_line import say
from ray_head import run_ray
from two_layers import SAMPLES, write_two_layers

import ptq
from ptq.core.errors import DataError, PtqError, StatsError, UsageError
from ptq.data.workers.start_workers import resolve_data

pytestmark = pytest.mark.usefixtures("native_sums_in_module")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_two_layers(tmp_path_factory.mktemp("verbs"))


@pytest.fixture(scope="module")
def dask(place: Path) -> Iterator[DaskProcesses]:
    with run_dask(place, 2) as found:
        yield found


def quantize(place: Path, data: Any = None, **options: Any) -> ptq.Result:
    data = place / "files" if data is None else data
    return ptq.quantize(place / "model.onnx", data, threads=1, force=True, **options)


def content(result: ptq.Result, folder: Path) -> tuple[bytes, str, object]:
    result.save(folder / "made.onnx")
    return (folder / "made.onnx").read_bytes(), result.plan.to_json(), result.report.evaluation


@pytest.fixture(scope="module")
def whole(place: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, str, object]:
    return content(quantize(place), tmp_path_factory.mktemp("whole"))


@pytest.mark.remote
def test_quantize_on_a_dask_cluster_makes_the_bytes_of_one_process(
    place: Path, whole: tuple[bytes, str, object], dask: DaskProcesses, tmp_path: Path
) -> None:
    assert content(quantize(place, cluster=dask.address), tmp_path) == whole
    rows = dict(np.load(place / "rows.npz"))
    one = content(quantize(place, rows), tmp_path)
    assert content(quantize(place, rows, cluster=dask.address), tmp_path) == one


@pytest.mark.remote
def test_the_command_line_quantizes_on_a_cluster_from_a_relative_path(
    place: Path, whole: tuple[bytes, str, object], dask: DaskProcesses, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    (tmp_path / "elsewhere").symlink_to(place / "files")
    monkeypatch.chdir(tmp_path)
    options = ["--threads", "1", "--force", "--cluster", dask.address, "-o", "made.onnx"]
    command = ["quantize", str(place / "model.onnx"), "--data", "elsewhere", *options]
    say(*command)
    assert (tmp_path / "made.onnx").read_bytes() == whole[0]
    for verb in ("verify", "evaluate"):
        command = [verb, "made.onnx", "--data", "elsewhere", "--threads", "1"]
        say(*command, "--cluster", dask.address)


def compare_verbs(place: Path, cluster: Any, engine: Any, folder: Path) -> None:
    """Assert that evaluate, compare, verify and sensitivity find on the cluster what one process finds."""
    quantize(place).save(folder / "int8.onnx")
    options: dict[str, Any] = {"threads": 1}

    def evaluate(**where: Any) -> object:
        return ptq.evaluate(
            folder / "int8.onnx", place / "files", against=place / "model.onnx",
            engine=engine, **where, **options,
        )  # fmt: skip

    assert evaluate(cluster=cluster) == evaluate()
    if engine == "ort":
        compared = [
            replace(
                ptq.compare(
                    place / "model.onnx", folder / "int8.onnx", place / "files", **where, **options
                ),
                speed=1.0,
                speed_interval=(1.0, 1.0),
            )
            for where in ({}, {"cluster": cluster})
        ]
        assert compared[0] == compared[1]
        one, other = (
            ptq.verify(folder / "int8.onnx", place / "rows.npz", **where, **options)
            for where in ({}, {"cluster": cluster})
        )
        assert other == one
        assert other.samples == SAMPLES
        ranked = [
            ptq.sensitivity(place / "model.onnx", place / "files", measure=1, **where, **options)
            for where in ({}, {"cluster": cluster})
        ]
        assert ranked[0] == ranked[1]


@pytest.mark.remote
@pytest.mark.parametrize("engine", ["ort", "integer"])
def test_evaluate_compare_verify_and_sensitivity_find_the_same_on_a_dask_cluster(
    place: Path, dask: DaskProcesses, engine: Any, tmp_path: Path
) -> None:
    compare_verbs(place, dask.address, engine, tmp_path)


@pytest.mark.remote
def test_every_verb_finds_the_same_on_a_ray_cluster(
    place: Path, whole: tuple[bytes, str, object], tmp_path: Path
) -> None:
    pytest.importorskip("ray", reason="ray is not installed")
    with run_ray() as address:
        assert content(quantize(place, cluster=address), tmp_path) == whole
        compare_verbs(place, address, "ort", tmp_path)


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_any_executor_of_the_user_gives_the_same(
    place: Path, whole: tuple[bytes, str, object], kind: Any, tmp_path: Path
) -> None:
    options = {} if kind is ThreadPoolExecutor else {"mp_context": get_context("spawn")}
    with kind(2, **options) as executor:
        assert content(quantize(place, cluster=executor), tmp_path) == whole
        if kind is ThreadPoolExecutor:
            compare_verbs(place, executor, "ort", tmp_path)


@pytest.mark.remote
@pytest.mark.parametrize("stage", ["calibrating", "rounding"])
def test_a_worker_of_a_cluster_that_is_killed_changes_nothing(
    place: Path, whole: tuple[bytes, str, object], stage: str, tmp_path: Path
) -> None:
    with run_dask(place, 2) as dask:
        steps = iter(range(10**6))

        def progress(name: str, total: int | None) -> Callable[[], None]:
            def step() -> None:
                if name == stage and next(steps) == 2:
                    dask.workers[0].kill()

            return step

        found = quantize(place, cluster=dask.address, progress=progress)
        assert content(found, tmp_path) == whole
        assert dask.workers[0].wait(10)


@pytest.mark.remote
def test_a_bad_sample_is_skipped_on_a_cluster_or_is_one_error_that_names_it(
    place: Path, dask: DaskProcesses, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    for path in (place / "files").iterdir():
        (tmp_path / "data" / path.name).symlink_to(path)
    (tmp_path / "data" / "031.npz").unlink()
    (tmp_path / "data" / "031.npz").write_bytes(b"damaged")
    one = quantize(place, tmp_path / "data", skip_bad_samples=True)
    other = quantize(place, tmp_path / "data", skip_bad_samples=True, cluster=dask.address)
    assert content(other, tmp_path) == content(one, tmp_path)
    assert other.report.skipped == one.report.skipped
    with pytest.raises(DataError, match=r"031\.npz") as caught:
        quantize(place, tmp_path / "data", cluster=dask.address)
    assert "\n" not in str(caught.value)


class Elsewhere(Executor):
    """Runs calls at once, where another version of ONNX Runtime is installed."""

    _max_workers = 2

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def submit(self, function: Any, /, *arguments: Any, **_: Any) -> Future[Any]:
        future: Future[Any] = Future()
        with self._monkeypatch.context() as patch:
            patch.setattr("ptq.model.machine.maker.ORT_VERSION", "1.0")
            future.set_result(function(*arguments))
        return future


def test_a_worker_of_another_version_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StatsError, match=r"^on a worker: .*another version.* onnxruntime") as found:
        quantize(place, cluster=Elsewhere(monkeypatch))
    assert "\n" not in str(found.value)


def test_a_cluster_with_workers_beside_it_is_refused(place: Path) -> None:
    with (
        ThreadPoolExecutor(2) as executor,
        pytest.raises(UsageError, match="a cluster has its own workers"),
    ):
        quantize(place, cluster=executor, workers=2)
    for address in ("somewhere", "tcp://127.0.0.1:99999", "ray://host:port"):
        with pytest.raises(UsageError, match="is not an address; write tcp://host:port"):
            quantize(place, cluster=address)


def test_an_executor_that_breaks_is_one_error(place: Path) -> None:
    executor = ThreadPoolExecutor(2)
    executor.shutdown()
    with pytest.raises(PtqError, match=r"^cluster of an executor: failed") as caught:
        quantize(place, cluster=executor)
    assert "\n" not in str(caught.value)


def test_nothing_of_a_run_stays_open_in_the_threads_of_an_executor(place: Path) -> None:
    from ptq.data import opened_sources
    from ptq.data.workers import run_part

    with ThreadPoolExecutor(2) as executor:
        quantize(place, cluster=executor)
        assert run_part._opened == {}
        assert opened_sources._opened == {}


def test_nothing_of_a_run_that_is_cancelled_stays_open(place: Path) -> None:
    from ptq.data import opened_sources
    from ptq.data.workers import run_part

    steps = iter([True, False])
    with ThreadPoolExecutor(2) as executor:
        with pytest.raises(ptq.Cancelled) as cancelled:
            ptq.calibrate(
                place / "model.onnx", place / "files", threads=1, cluster=executor,
                progress=lambda _, __: lambda: next(steps),
            )  # fmt: skip
        assert cancelled.value.__traceback__ is not None  # whoever keeps it keeps the frames
        executor.shutdown()
        assert run_part._opened == {}
        assert opened_sources._opened == {}


@pytest.mark.parametrize("pattern", ["files/*.npz", "f{iles,ewer}/*.npz", "./files/0?[0-9].npz"])
def test_a_pattern_is_that_of_this_folder_on_workers_elsewhere(
    place: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    monkeypatch.chdir(place)
    with ThreadPoolExecutor(1) as executor:
        found = resolve_data(pattern, executor)
    assert found == str(place / pattern.removeprefix("./"))
    assert resolve_data(pattern, None) == pattern
    for other in ("s3://bucket/*.npz", "module:callable", "missing"):
        assert resolve_data(other, "tcp://127.0.0.1:1") == other


class Forgetful(ThreadPoolExecutor):
    """Loses every third call, as a cluster whose worker ended with what only that one kept."""

    calls = 0

    def submit(self, function: Any, /, *arguments: Any, **_: Any) -> Future[Any]:
        self.calls += 1
        if self.calls % 3:
            return super().submit(function, *arguments)
        lost: Future[Any] = Future()
        lost.cancel()
        lost.set_running_or_notify_cancel()
        return lost


def test_a_part_that_a_cluster_loses_runs_again_and_counts_once(
    place: Path, whole: tuple[bytes, str, object], tmp_path: Path
) -> None:
    with Forgetful(2) as executor:
        assert content(quantize(place, cluster=executor), tmp_path) == whole
