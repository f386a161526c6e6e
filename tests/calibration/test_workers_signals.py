"""Ctrl-C while workers start. Oracle: the operating system's mask of signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from ptq.data.workers.interrupts import hold_interrupts

BLOCKED = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "pthread_sigmask"), reason="there are no masks of signals"
)


@pytest.mark.parametrize("within", [True, False])
def test_a_process_that_starts_meanwhile_never_gets_it(within: bool) -> None:
    def started() -> str:
        return subprocess.run(
            [sys.executable, "-c", BLOCKED], capture_output=True, text=True, check=True
        ).stdout.strip()

    if not within:
        assert started() == "False"
        return
    with hold_interrupts():
        assert started() == "True"


def test_what_comes_meanwhile_comes_afterwards() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    steps = []

    def interrupted() -> None:
        with hold_interrupts():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)  # for whichever thread takes it
            steps.append("after it")

    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
    finally:
        signal.signal(signal.SIGINT, before)
    assert steps == ["after it"]


def test_what_another_thread_takes_comes_afterwards_too() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    done, steps = threading.Event(), []
    other = threading.Thread(target=done.wait, daemon=True)
    other.start()

    def interrupted() -> None:
        with hold_interrupts():
            signal.pthread_kill(other.ident or 0, signal.SIGINT)
            time.sleep(0.05)
            steps.append("after it")

    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
    finally:
        done.set()
        signal.signal(signal.SIGINT, before)
    assert steps == ["after it"]


def test_worker_processes_end_when_their_parent_is_killed_and_remove_its_files() -> None:
    """They hold the output of the parent, which ends with the last of them."""
    script = (
        "import os, signal\n"
        "from ptq.data.workers import worker_pool\n"
        "if __name__ == '__main__':\n"
        "    worker_pool.ALONE_SECONDS = -1\n"
        "    pool = worker_pool.ProcessPool(2)\n"
        "    pool.ready()\n"
        "    print(pool._workers[0]._started.result(), pool._folder, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, timeout=120, check=False
    )
    started, folder = done.stdout.decode().split()
    assert started == "True"
    assert done.returncode == -signal.SIGKILL
    assert not os.path.exists(folder)
