"""A Dask scheduler and its workers as processes of this machine."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from object_store import free_port, wait_for


@dataclass
class DaskProcesses:
    """A scheduler and its workers.

    Attributes:
        address: The address of the scheduler.
        port: Its port.
        folder: The current folder of the workers.
        scheduler: Its process.
        workers: Their processes.
    """

    address: str
    port: int
    folder: Path
    scheduler: subprocess.Popen[bytes] | None = None
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start_scheduler(self) -> None:
        command = ["distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--no-dashboard"]
        self.scheduler = self._start([*command, "--port", str(self.port)])
        wait_for(self.port, self.scheduler)

    def start_worker(self, **environment: str) -> subprocess.Popen[bytes]:
        command = ["distributed.cli.dask_worker", self.address, "--nthreads", "1", "--no-nanny"]
        process = self._start([*command, "--no-dashboard"], **environment)
        self.workers.append(process)
        return process

    def start_worker_on_full_disk(self, free: int) -> None:
        """Start a worker whose files may have so many bytes."""
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (free, free))  # noqa: E731
        command = ["distributed.cli.dask_worker", self.address, "--nthreads", "1", "--no-nanny"]
        self.workers.append(self._start([*command, "--no-dashboard"], limit))

    def _start(
        self, command: list[str], before: Callable[[], None] | None = None, **environment: str
    ) -> subprocess.Popen[bytes]:
        root = Path(__file__).resolve().parents[2]
        paths = [str(root), os.environ.get("PYTHONPATH", "")]
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **environment}
        return subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", *command],
            cwd=self.folder, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=before,
        )  # fmt: skip

    def stop(self) -> None:
        for process in [*self.workers, self.scheduler]:
            if process is not None:
                process.kill()
                process.wait()


@contextmanager
def run_dask(folder: Path, workers: int) -> Iterator[DaskProcesses]:
    """Run a scheduler and workers; all end with the block."""
    pytest.importorskip("distributed", reason="distributed is not installed")
    port = free_port()
    found = DaskProcesses(f"tcp://127.0.0.1:{port}", port, folder)
    try:
        found.start_scheduler()
        for _ in range(workers):
            found.start_worker()
        yield found
    finally:
        found.stop()
