"""Calibration on a real Ray head of this machine; one process is the oracle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from networks import build_network, gaussian_array
from object_store import free_port, wait_for
from parts import CONV, WB

import ptq
from ptq.core.errors import DataError

MODEL = build_network(CONV + "y = Relu(c)", {"x": ("n", 3, 8, 8)}, **WB)
_FIRST_WORKER_PORT = 10002
"""Ray gives the ports from here on to its workers, unless a range is named."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A head with two processors, which ends with the tests."""
    pytest.importorskip("ray", reason="ray is not installed")
    port, client = free_port(), free_port()
    root = Path(__file__).resolve().parents[2]
    command = [
        sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--port", str(port),
        "--ray-client-server-port", str(client), "--num-cpus", "2", "--include-dashboard", "false",
        "--object-store-memory", "100000000", "--min-worker-port", str(_FIRST_WORKER_PORT),
        "--max-worker-port", "19999", "--temp-dir", str(tmp_path_factory.mktemp("ray")),
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


@pytest.mark.remote
def test_a_ray_cluster_gives_the_bytes_of_one_process_and_its_errors(
    address: str, tmp_path: Path
) -> None:
    onnx.save(MODEL, tmp_path / "model.onnx")
    np.savez(tmp_path / "data.npz", x=gaussian_array(80, 3, 8, 8))
    whole = ptq.calibrate(tmp_path / "model.onnx", tmp_path / "data.npz", threads=1).to_bytes()
    found = ptq.calibrate(
        tmp_path / "model.onnx", tmp_path / "data.npz", threads=1, cluster=address
    )
    assert found.to_bytes() == whole
    damaged = tmp_path / "files"
    damaged.mkdir()
    for number in range(40):
        np.savez(damaged / f"{number:02}.npz", x=gaussian_array(1, 3, 8, 8))
    (damaged / "17.npz").write_bytes(b"damaged")
    with pytest.raises(DataError, match=r"^on a worker: .*17\.npz"):
        ptq.calibrate(tmp_path / "model.onnx", damaged, threads=1, cluster=address)
