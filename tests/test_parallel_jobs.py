"""Jobs in threads and in processes, with a time limit; the same job alone is the oracle."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import onnx
import pytest
from jobs import FEW, MODEL, run_job

import ptq
from ptq.core.run_options import Progress

VERBS = ("quantize", "calibrate", "evaluate")
SECONDS = 300  # a few are usual; a machine with other work needs more
from_threads = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

pytestmark = pytest.mark.usefixtures("native_sums_in_module")


@pytest.fixture(scope="module")
def alone() -> dict[str, bytes]:
    """What each verb gives alone; afterwards sessions and threads exist in this process."""
    return {verb: run_job(verb) for verb in VERBS}


def _run_in_threads(functions: Sequence[Callable[[], bytes]]) -> list[bytes | Exception]:
    """Results, or errors, of functions that run at once."""
    ended: dict[int, bytes | Exception] = {}
    start = threading.Barrier(len(functions))

    def run(number: int) -> None:
        try:
            start.wait(SECONDS)
            ended[number] = functions[number]()
        except Exception as error:
            ended[number] = error

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(functions))]
    deadline = time.monotonic() + SECONDS
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(deadline - time.monotonic())
        assert not thread.is_alive(), "the threads wait for each other"
    return [ended[i] for i in range(len(functions))]


def _send(function: Callable[[], bytes], writer: Connection) -> None:
    writer.send_bytes(function())


def _run_in_process(method: str, function: Callable[[], bytes], daemon: bool = False) -> bytes:
    """Result of a function in another process."""
    context = multiprocessing.get_context(method)
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(function, writer), daemon=daemon)  # type: ignore[attr-defined]
    process.start()
    writer.close()
    try:
        assert reader.poll(SECONDS), "the process does not end"
        return reader.recv_bytes()
    finally:
        process.kill()
        process.join()


def _run_all() -> bytes:
    return b"".join(map(run_job, VERBS))


def test_verbs_in_threads_give_the_bytes_of_a_single_run(alone: dict[str, bytes]) -> None:
    verbs = [*VERBS, "quantize"]
    assert _run_in_threads([partial(run_job, v) for v in verbs]) == [alone[v] for v in verbs]


@from_threads
@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_verbs_in_another_process_give_the_bytes_of_a_single_run(
    alone: dict[str, bytes], method: str
) -> None:
    assert _run_in_process(method, _run_all) == b"".join(alone[verb] for verb in VERBS)


def test_cancelling_in_one_thread_does_not_touch_another(alone: dict[str, bytes]) -> None:
    other_runs, cancelled = threading.Event(), threading.Event()

    def stop(stage: str, steps: int | None) -> Callable[[], bool]:
        return lambda: not other_runs.wait(SECONDS)

    def go_on(stage: str, steps: int | None) -> Callable[[], None]:
        other_runs.set()
        assert cancelled.wait(SECONDS)
        return lambda: None

    def run(progress: Progress) -> bytes:
        try:
            return run_job("quantize", progress)
        finally:
            cancelled.set()

    stopped, ended = _run_in_threads([partial(run, stop), partial(run, go_on)])
    assert isinstance(stopped, ptq.Cancelled)
    assert ended == alone["quantize"]


def _calibrate_in_workers(model: str, data: str) -> bytes:
    try:
        return ptq.calibrate(model, data, threads=1, workers=2).to_bytes()
    except ptq.PtqError as error:
        return f"{type(error).__name__}: {error}".encode()


def test_a_daemon_process_refuses_workers_of_its_own(tmp_path: Path) -> None:
    onnx.save(MODEL, tmp_path / "model.onnx")
    np.savez(tmp_path / "data.npz", **FEW)
    paths = str(tmp_path / "model.onnx"), str(tmp_path / "data.npz")
    method = multiprocessing.get_all_start_methods()[0]
    found = _run_in_process(method, partial(_calibrate_in_workers, *paths), daemon=True)
    assert found.startswith(b"UsageError: a daemon process cannot start workers; use one worker")


def test_a_script_on_standard_input_refuses_workers_before_it_works(tmp_path: Path) -> None:
    script = b"import ptq\nif __name__ == '__main__':\n    ptq.calibrate('model.onnx', 'data.npz', workers=2)\n"
    onnx.save(MODEL, tmp_path / "model.onnx")
    np.savez(tmp_path / "data.npz", **FEW)
    done = subprocess.run(
        [sys.executable, "-"], input=script, cwd=tmp_path, capture_output=True, check=False, timeout=SECONDS
    )  # fmt: skip
    assert done.returncode == 1
    assert b"UsageError: workers cannot load a script from standard input" in done.stderr


def test_workers_of_a_script_without_a_guard_end_with_advice(tmp_path: Path) -> None:
    onnx.save(MODEL, tmp_path / "model.onnx")
    np.savez(tmp_path / "data.npz", **FEW)
    call = "ptq.calibrate('model.onnx', 'data.npz', workers=2)"
    support = Path(__file__).parent / "support"
    at_once = f"import sys; sys.path.append({str(support)!r})\nimport pytest, waiting_pool\n"
    at_once += "waiting_pool.start_at_once(pytest.MonkeyPatch())"
    (tmp_path / "script.py").write_text(f"import ptq\n{at_once}\n{call}\n")
    command = [sys.executable, "script.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=SECONDS)
    assert done.returncode == 1
    assert b"PtqError: a worker process ended early; " in done.stderr
    assert b"if __name__ == '__main__'" in done.stderr.splitlines()[-1]
