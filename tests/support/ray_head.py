"""A real head of Ray on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from object_store import free_port, wait_for

_FIRST_WORKER_PORT = 10002
"""Ray gives the ports from here on to its workers, unless a range is named."""


@contextmanager
def run_ray() -> Iterator[str]:
    """Run a head with two processors; give its address. The package ray must be installed."""
    # Ray's sockets lie in the folder, and their paths have at most 107 bytes
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        yield from _run_head(folder)


def _run_head(folder: str) -> Iterator[str]:
    port, client = free_port(), free_port()
    root = Path(__file__).resolve().parents[2]
    command = [
        sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--port", str(port),
        "--ray-client-server-port", str(client), "--num-cpus", "2", "--include-dashboard", "false",
        "--object-store-memory", "100000000", "--min-worker-port", str(_FIRST_WORKER_PORT),
        "--max-worker-port", "19999", "--temp-dir", folder,
    ]  # fmt: skip
    paths = [str(root), os.environ.get("PYTHONPATH", "")]
    variables = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    head = subprocess.Popen(
        command, env=variables, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for(client, head)
        _wait_for_head(f"ray://127.0.0.1:{client}")
        yield f"ray://127.0.0.1:{client}"
    finally:
        os.killpg(head.pid, signal.SIGTERM)
        try:
            head.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(head.pid, signal.SIGKILL)
            head.wait()


def _wait_for_head(address: str) -> None:
    """Wait until the head answers: its port is open before."""
    import ray

    for attempt in range(4):
        try:
            ray.init(address).disconnect()
            return
        except (ConnectionError, RuntimeError):
            if attempt == 3:
                raise
