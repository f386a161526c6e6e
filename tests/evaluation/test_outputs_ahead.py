"""Idle workers run the float model ahead; what they find is what this process would find. The processes are real."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from two_layers import SAMPLES, write_two_layers
from waiting_pool import start_at_once

import ptq
from ptq.core.run_options import RunOptions
from ptq.data import Samples
from ptq.data.splits import SampleOptions
from ptq.data.workers.worker_pool import ProcessPool
from ptq.evaluation import evaluate
from ptq.evaluation.runs import outputs_ahead
from ptq.evaluation.runs.engines import open_session_engine
from ptq.evaluation.runs.outputs_ahead import compute_ahead, find_next_part
from ptq.evaluation.runs.run_forms import Opener, run_forms
from ptq.kernels.lent_threads import find_lent_threads
from ptq.model.open import open_model

ENOUGH_SECONDS = 60
BATCH = 8


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_two_layers(tmp_path_factory.mktemp("ahead"))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[RunOptions]:
    """A run whose two workers have started."""
    start_at_once(monkeypatch)
    pool = ProcessPool(3)
    assert len(pool.ready()) == 2
    yield RunOptions(threads=1, pool=pool)
    pool.stop()


@pytest.fixture
def opener(place: Path) -> Opener:
    return partial(open_session_engine, open_model(place / "model.onnx"), RunOptions(threads=1))


def open_data(source: Any, place: Path) -> Samples:
    return SampleOptions().open(source, open_model(place / "model.onnx"))


def await_count(known: dict[str, Any], count: int) -> None:
    end = time.monotonic() + ENOUGH_SECONDS
    while len(known) < count and time.monotonic() < end:
        time.sleep(0.01)


def compute(opener: Opener, samples: Samples, run: RunOptions, count: int) -> dict[str, Any]:
    """What is known when at least so many samples are."""
    known: dict[str, Any] = {}
    with compute_ahead(opener, samples, BATCH, run, known):
        await_count(known, count)
    return known


def test_outputs_are_those_of_the_evaluation_by_name_and_digest(
    place: Path, run: RunOptions, opener: Opener
) -> None:
    samples = open_data(place / "rows.npz", place)
    known = compute(opener, samples, run, SAMPLES)
    alone = RunOptions(threads=1)
    found = run_forms({"float": opener()}, samples, BATCH, {"float": opener}, alone)
    for sample, outputs in found:
        digest, [ahead] = known.pop(sample.name)
        assert digest == sample.digest
        assert ahead.tobytes() == outputs["float"][0].tobytes()
    assert not known


def test_it_goes_on_where_it_stopped(
    place: Path, run: RunOptions, opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples, known = open_data(place / "files", place), dict[str, Any]()
    monkeypatch.setattr(outputs_ahead, "_MAX_BYTES", 0)  # it stops after the first part
    with compute_ahead(opener, samples, BATCH, run, known):
        await_count(known, BATCH)
    first = {**known}
    assert list(first) == samples.names[:BATCH]
    monkeypatch.undo()
    with compute_ahead(opener, samples, BATCH, run, known):
        await_count(known, SAMPLES)
    assert list(known) == samples.names
    assert all(known[name] is first[name] for name in first)


def test_the_threads_of_the_workers_are_lent_until_all_is_known(
    place: Path, run: RunOptions, opener: Opener
) -> None:
    samples, known, back = open_data(place / "rows.npz", place), dict[str, Any](), threading.Event()
    assert find_lent_threads() is None
    with compute_ahead(opener, samples, BATCH, run, known):
        lent = find_lent_threads()
        assert lent is not None
        assert lent.count == 2  # each of two workers computes on one
        with lent.when_back(back.set):
            assert back.wait(ENOUGH_SECONDS)
        assert list(known) == samples.names
    assert find_lent_threads() is None


def test_the_next_part_starts_behind_bad_samples_of_the_last_one() -> None:
    names = list("abcdefgh")
    assert find_next_part(names, (), 3) == 0
    assert find_next_part(names, {"b", "c"}, 3) == 3  # the first one is bad
    assert find_next_part(names, {"a", "b"}, 3) == 3  # the last one is bad
    assert find_next_part(names, {*"abcdefgh"}, 3) == 9


def test_nothing_runs_ahead_without_workers_or_files(
    place: Path, run: RunOptions, opener: Opener
) -> None:
    rows = place / "rows.npz"
    assert compute(opener, open_data(rows, place), RunOptions(threads=1), 0) == {}
    idle = RunOptions(threads=1, pool=ProcessPool(2))
    assert compute(opener, open_data(rows, place), idle, 0) == {}
    arrays = open_data(dict(np.load(rows)), place)
    assert compute(opener, arrays, run, 0) == {}


def test_a_sample_that_fails_is_left_to_the_evaluation(
    place: Path, run: RunOptions, opener: Opener, tmp_path: Path
) -> None:
    for path in (place / "files").iterdir():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "017.npz").unlink()
    (tmp_path / "017.npz").write_bytes(b"damaged")
    samples = open_data(tmp_path, place)
    assert list(compute(opener, samples, run, 2 * BATCH)) == samples.names[: 2 * BATCH]


def test_workers_that_are_killed_are_no_error(place: Path, run: RunOptions, opener: Opener) -> None:
    for process in multiprocessing.active_children():
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join(ENOUGH_SECONDS)
    samples = open_data(place / "rows.npz", place)
    known = compute(opener, samples, run, 1)
    assert list(known) == samples.names[: len(known)]  # parts that a worker had run in this process
    assert known


def test_an_error_in_the_block_passes(place: Path, run: RunOptions, opener: Opener) -> None:
    samples = open_data(place / "rows.npz", place)
    with pytest.raises(KeyError), compute_ahead(opener, samples, BATCH, run, {}):
        raise KeyError
    assert len(compute(opener, samples, run, SAMPLES)) == SAMPLES  # the workers are free again


def test_a_quantization_takes_what_ran_ahead(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start_at_once(monkeypatch)
    blocks, taken = list[int](), list[int]()
    ahead, run_all = outputs_ahead.compute_ahead, evaluate.run_forms

    @contextmanager
    def wait(*given: Any) -> Iterator[None]:
        samples, known = given[1], given[-1]
        with ahead(*given):
            yield
            await_count(known, len(samples))
        blocks.append(len(known) - len(samples))

    def count(*given: Any) -> Any:
        taken.append(len(given[-1]["float"]) if given[-1] else 0)
        return run_all(*given)

    monkeypatch.setattr(outputs_ahead, "compute_ahead", wait)
    monkeypatch.setattr(evaluate, "run_forms", count)
    results = [
        ptq.quantize(
            place / "model.onnx", place / "files", threads=1, workers=workers, force=True
        ).report.evaluation
        for workers in (1, 2)
    ]
    assert results[0] == results[1]
    assert results[1] is not None
    assert blocks == [0, 0]  # while ranges are listed, and while weights are rounded
    assert taken == [0, results[1].samples]
