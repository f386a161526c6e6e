"""A cluster whose workers leave for a moment: no sample is lost, and none that stays away is waited for in vain."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ptq.core.errors import DataError, PtqError
from ptq.core.run_options import DEFAULT_RUN
from ptq.data import InputSpec, Sample, open_samples
from ptq.data.workers import await_worker, cluster_pool
from ptq.data.workers.cluster_adapters import ExecutorAdapter, Submit
from ptq.data.workers.cluster_pool import ClusterPool, open_cluster
from ptq.data.workers.sample_map import SampleMap
from ptq.data.workers.sample_parts import Part

SAMPLES = [Sample(str(k), {"x": np.full(1, k)}) for k in range(20)]


@dataclass(frozen=True)
class FailingJob:
    """Fails on every shard; on the first one last."""

    def open(self) -> Callable[[Part], str]:
        def fail(part: Part) -> str:
            time.sleep(0.0 if part.first else 0.3)
            raise DataError(f"shard {part.first}")

        return fail


@dataclass(frozen=True)
class NameJob:
    """Gives the names of the samples."""

    def open(self) -> Callable[[Part], list[str]]:
        return lambda part: [sample.name for sample in part.samples]


class LeavingAdapter(ExecutorAdapter):
    """Two workers; then none, each time it is asked as often as given; then two again."""

    def __init__(self, executor: ThreadPoolExecutor, times: int) -> None:
        super().__init__(executor)
        self.asked, self._times = 0, times

    def count_slots(self) -> Mapping[str, int]:
        self.asked += 1
        return {"": 2} if self.asked == 1 or self.asked > self._times else {}


class ForgettingAdapter(ExecutorAdapter):
    """Two workers; the first one leaves, and the scheduler forgets the parts that it had."""

    def __init__(self, executor: ThreadPoolExecutor) -> None:
        super().__init__(executor)
        self.forgotten: list[Future[Any]] = []

    def count_slots(self) -> Mapping[str, int]:
        return {"b": 1} if self.forgotten else {"a": 1, "b": 1}

    def submit_to(self, worker: str) -> Submit:
        return self._forget if worker == "a" else super().submit_to(worker)

    def _forget(self, *_: object) -> Future[Any]:
        self.forgotten.append(Future())
        return self.forgotten[-1]


class DyingAdapter(ExecutorAdapter):
    """A worker that ends with each part."""

    def submit_to(self, worker: str) -> Submit:
        return self._give_up

    def _give_up(self, *_: object) -> Future[Any]:
        future: Future[Any] = Future()
        future.cancel()
        return future


@pytest.fixture
def executor(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadPoolExecutor]:
    monkeypatch.setattr(cluster_pool, "_REFRESH_SECONDS", 0.0)
    monkeypatch.setattr(await_worker, "_PAUSE_SECONDS", 0.001)
    with ThreadPoolExecutor(2) as found:
        yield found


def run_on(adapter: ExecutorAdapter) -> list[str]:
    pool = ClusterPool("of a test", adapter, threads=1, maker=None)
    try:
        parts = SampleMap(NameJob(), replace(DEFAULT_RUN, pool=pool)).map(SAMPLES, most=2)
        return [name for names in parts for name in names]
    finally:
        pool.stop()


def test_samples_wait_for_workers_that_come_back(executor: ThreadPoolExecutor) -> None:
    adapter = LeavingAdapter(executor, 5)
    assert run_on(adapter) == [sample.name for sample in SAMPLES]
    assert adapter.asked > 5


def test_a_cluster_whose_workers_stay_away_is_an_error(
    executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(await_worker, "_SECONDS_WITHOUT_WORKERS", 0.05)
    with pytest.raises(PtqError, match=r"had no workers for 0\.05 s; start some"):
        run_on(LeavingAdapter(executor, 10**9))


def test_a_part_that_a_scheduler_forgets_is_sent_to_another_worker(
    executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_pool, "_LOST_SECONDS", 0.05)
    adapter = ForgettingAdapter(executor)
    assert run_on(adapter) == [sample.name for sample in SAMPLES]
    assert adapter.forgotten
    assert all(future.cancelled() for future in adapter.forgotten)


def test_workers_that_end_with_each_part_are_one_error_with_the_likely_cause(
    executor: ThreadPoolExecutor,
) -> None:
    with pytest.raises(PtqError, match=r"again and again; their memory may be short: see its logs"):
        run_on(DyingAdapter(executor))


@pytest.mark.parametrize(
    "address", ["http://user:secret@host:1", "tcp://127.0.0.1", "tcp://user:secret@127.0.0.1:9"]
)
def test_an_address_that_cannot_be_used_is_one_line_without_its_password(address: str) -> None:
    pytest.importorskip("distributed", reason="distributed is not installed")
    with pytest.raises(PtqError, match=r"^cluster ") as caught:
        open_cluster(address, threads=1, same_maker=False)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_second_try_to_connect_ends_though_the_first_client_is_collected_meanwhile() -> None:
    """Garbage is collected again and again, as it may be in a long job; the process ends."""
    pytest.importorskip("distributed", reason="distributed is not installed")
    script = (
        "import gc\n"
        "from ptq.core.errors import PtqError\n"
        "from ptq.data.workers.cluster_pool import open_cluster\n"
        "for _ in range(3):\n"
        "    try:\n"
        "        open_cluster('tcp://127.0.0.1', threads=1, same_maker=False)\n"
        "    except PtqError:\n"
        "        gc.set_threshold(1)\n"
        "        print('refused')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["refused"] * 3


def test_the_first_shard_that_fails_is_named_whichever_fails_first(
    executor: ThreadPoolExecutor, tmp_path: Path
) -> None:
    np.savez(tmp_path / "data.npz", x=np.zeros((8, 3), np.float32))
    inputs = [InputSpec("x", np.dtype(np.float32), (None, 3))]
    pool = ClusterPool("of a test", ExecutorAdapter(executor), threads=1, maker=None)
    shards = SampleMap(FailingJob(), replace(DEFAULT_RUN, pool=pool)).map_shards(
        open_samples(tmp_path / "data.npz", inputs), [(k, 4) for k in range(4)]
    )
    with pytest.raises(DataError, match="shard 0"):
        list(shards)
    pool.stop()


def test_parts_that_nobody_waits_for_are_forgotten(executor: ThreadPoolExecutor) -> None:
    pool = ClusterPool("of a test", ExecutorAdapter(executor), threads=1, maker=None)
    for _ in range(3):
        found = SampleMap(NameJob(), replace(DEFAULT_RUN, pool=pool)).map(SAMPLES, most=2)
        assert next(found)
        found.close()
        assert pool._started == {}
    pool.stop()
