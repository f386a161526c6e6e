"""Calibration on a real Ray head of this machine; one process is the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from networks import build_network, gaussian_array
from parts import CONV, WB
from ray_head import run_ray

import ptq
from ptq.core.errors import DataError

MODEL = build_network(CONV + "y = Relu(c)", {"x": ("n", 3, 8, 8)}, **WB)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a head, which ends with the tests."""
    pytest.importorskip("ray", reason="ray is not installed")
    with run_ray() as found:
        yield found


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
