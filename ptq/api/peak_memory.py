"""Peak memory of a process that loads a model and runs it, measured in a process of its own (Linux).

python -m ptq.api.peak_memory MODEL FEED.npz THREADS

prints the bytes at the peak.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.memory import can_measure_memory, read_peak_memory
from ptq.model.open import open_model
from ptq.model.session.session import Session

_RUNS = 3
_MODULE = "ptq.api.peak_memory"


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
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "feed.npz"
        np.savez(file, **feed)  # type: ignore[arg-type] # numpy's type has no keywords of arrays
        command = [sys.executable, "-m", _MODULE, str(path), str(file), str(threads)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip().isdigit() else None


def _run_and_measure(path: str, file: str, threads: str) -> int:
    session = Session.for_timing(open_model(path), threads=int(threads))
    with np.load(file) as arrays:
        feed = dict(arrays)
    for _ in range(_RUNS):
        session.run(feed)
    return read_peak_memory()


if __name__ == "__main__":
    sys.stdout.write(str(_run_and_measure(*sys.argv[1:])))
