"""Threads that read ahead. Oracle: the end of a process, and the content of files."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import CancelledError
from pathlib import Path
from threading import Event

import pytest

from ptq.data.trees.readers import Readers

SLOW = """
import time
from ptq.data.trees.readers import Readers
readers = Readers(lambda name: time.sleep(60), 2)
for name in "abc":
    readers.submit(name)
readers.stop()
print("ended", flush=True)
"""


def test_contents_and_errors_come_in_any_number(tmp_path: Path) -> None:
    for k in range(20):
        (tmp_path / str(k)).write_bytes(bytes([k]))
    readers = Readers(lambda name: (tmp_path / name).read_bytes(), 3)
    futures = [readers.submit(str(k)) for k in range(21)]
    assert [future.result() for future in futures[:20]] == [bytes([k]) for k in range(20)]
    with pytest.raises(FileNotFoundError):
        futures[20].result()
    readers.stop()


def test_what_has_not_started_is_given_up() -> None:
    free = Event()
    readers = Readers(lambda _: bytes(free.wait()), 1)
    futures = [readers.submit("") for _ in range(3)]
    while not futures[0].running():
        pass
    readers.stop()
    free.set()
    assert futures[0].result() == b"\0"
    for future in futures[1:]:
        with pytest.raises(CancelledError):
            future.result()


def test_a_process_ends_while_files_are_read() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SLOW], capture_output=True, text=True, timeout=50, check=True
    )
    assert (done.stdout, done.stderr) == ("ended\n", "")
