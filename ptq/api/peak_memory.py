"""Peak memory of a process that loads a model and runs it, measured in a process of its own (Linux)."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ptq.core.memory import can_measure_memory, read_peak_memory
from ptq.executor.runtimes.host_messages import read_message, write_message
from ptq.model.open import open_model
from ptq.model.session.session import Session

_RUNS = 3


def measure_peak_memory(path: Path, feed: Mapping[str, NDArray[Any]], threads: int) -> int | None:
    """Bytes of memory at the peak of a process that loads a model and runs it three times.

    The libraries, about 100 MB, are included.

    Args:
        path: The model.
        feed: The inputs.
        threads: Threads of ONNX Runtime for one operator; 0 is one for each core.

    Returns:
        The bytes; None where the system does not say or the process ended otherwise.
    """
    if not can_measure_memory():
        return None
    asked = io.BytesIO()
    run = {"path": str(path), "inputs": [*feed], "threads": threads}
    write_message(asked, run, [*feed.values()])
    # a file of the current folder must not stand for a module of another package; imports use texts only
    places = [place for place in sys.path if isinstance(place, str)]
    code = f"import sys; sys.path[:] = {places!r}; import {__name__} as own; own.run_and_measure()"
    done = subprocess.run(
        [sys.executable, "-c", code], input=asked.getvalue(), capture_output=True, check=False
    )
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip().isdigit() else None


def run_and_measure() -> None:
    """Run the model that standard input names, and print the bytes at the peak."""
    asked, arrays = read_message(sys.stdin.buffer)
    session = Session.for_timing(open_model(asked["path"]), threads=asked["threads"])
    feed = dict(zip(asked["inputs"], arrays, strict=True))
    for _ in range(_RUNS):
        session.run(feed)
    sys.stdout.write(str(read_peak_memory()))
