"""Cost of child processes for speed.py: CPU seconds, peak memory, and what they print.

The operating system measures each child alone. This process stays small and imports no numeric library: a child that
starts as a copy of a large process would count that memory as its own peak.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Cost:
    """What a child process used.

    Attributes:
        seconds: CPU seconds of all its threads, and of the processes that it started and waited for.
        peak_mib: Largest resident set of one of these processes, in MiB.
        printed: Its standard output.
    """

    seconds: float
    peak_mib: float
    printed: str


def run_python(arguments: Sequence[str], threads: int) -> Cost:
    """Run this Python with arguments and wait for its end.

    Args:
        arguments: What stands after ``python``.
        threads: Threads of the numeric libraries in the child.

    Raises:
        RuntimeError: The child fails; the text is the end of its standard error.
    """
    environment = os.environ | dict.fromkeys(THREAD_VARIABLES, str(threads))
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package is compiled once
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(
            [sys.executable, *arguments], stdout=output, stderr=errors, env=environment
        )
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        if child.returncode:
            last = errors.read().decode(errors="replace").strip()[-500:]
            raise RuntimeError(f"{' '.join(arguments)}: exit code {child.returncode}: {last}")
        return Cost(
            usage.ru_utime + usage.ru_stime,
            usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 2**20,
            output.read().decode(),
        )
