"""Calibration within a limit of memory: the peak of a real process, and the same bytes as without a limit."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from networks import build_network
from parts import CONV, SAME, WB, V

import ptq
from ptq.calibration.calibration import list_tensors_to_collect
from ptq.core.memory import can_measure_memory
from ptq.model.graph import Graph
from ptq.model.session.exposed_session import CollectedTensors, open_session_with_outputs
from ptq.rewrite.prepare.prepare import prepare

pytestmark = pytest.mark.skipif(
    not can_measure_memory(), reason="this system does not say how much memory a process takes"
)
DENSENET = Path(onnx.__file__).parent / "backend/test/data/light/light_densenet121.onnx"
NETWORK = build_network(
    CONV + f"r = Relu(c)\nd = Conv{SAME}(r, v)\na = Add(d, r)\ny = Sigmoid(a)",
    {"x": ("n", 3, 256, 256)},
    v=V,
    **WB,
)
_CHILD = """
import hashlib, json, sys, ptq
from ptq.core.memory import read_peak_memory
model, data, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
try:
    statistics = ptq.calibrate(model, data, threads=1, **options)
except ptq.UsageError as error:
    found = {"error": str(error)}
else:
    found = {"digest": hashlib.sha256(statistics.to_bytes()).hexdigest()}
found["peak"] = read_peak_memory()  # the kernel's ru_maxrss also counts the process that started this one
print(json.dumps(found))
"""


def calibrate_in_child(model: Path, data: Path, **options: Any) -> dict[str, Any]:
    command = [sys.executable, "-c", _CHILD, str(model), str(data), json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def network(tmp_path: Path) -> tuple[Path, Path]:
    """A network with tensors of 2 MB, and six samples."""
    model, data = tmp_path / "model.onnx", tmp_path / "data.npz"
    onnx.save(NETWORK, model)
    x = np.random.default_rng(0).normal(size=(6, 3, 256, 256))
    np.savez(data, x=x.astype(np.float32))
    return model, data


@pytest.mark.skipif(not DENSENET.exists(), reason="this onnx comes without its backend tests")
def test_a_densenet_is_calibrated_within_350_mb_to_the_same_bytes(tmp_path: Path) -> None:
    data = tmp_path / "data.npz"
    x = np.random.default_rng(0).normal(size=(1, 3, 224, 224))
    np.savez(data, data_0=x.astype(np.float32))
    free = calibrate_in_child(DENSENET, data)
    limited = calibrate_in_child(DENSENET, data, memory="350MB")
    assert free["peak"] > 350e6  # otherwise the limit limits nothing
    assert limited["peak"] <= 350e6
    assert limited["digest"] == free["digest"]


def test_the_number_in_the_refusal_is_enough_and_gives_the_same_bytes(
    network: tuple[Path, Path],
) -> None:
    refused = calibrate_in_child(*network, memory="50MB")
    found = re.fullmatch(
        r"memory 50MB: this model needs at least (\d+)MB to be calibrated; give that much",
        refused["error"],
    )
    assert found, refused
    enough = int(found[1]) + 15  # what a process takes varies from run to run
    limited = calibrate_in_child(*network, memory=f"{enough}MB")
    assert limited["peak"] <= enough * 10**6
    assert limited["digest"] == calibrate_in_child(*network)["digest"]


def test_kept_samples_count_towards_the_limit(network: tuple[Path, Path], tmp_path: Path) -> None:
    data, each = tmp_path / "more.npz", 3 * 256 * 256 * 4
    x = np.random.default_rng(0).normal(size=(60, 3, 256, 256))
    np.savez(data, x=x.astype(np.float32))
    needed = []
    for kept in (0, 60):
        error = calibrate_in_child(network[0], data, memory="50MB", keep_samples=kept)["error"]
        found = re.search(r"(\d+)MB to be", error)
        assert found, error
        needed.append(int(found[1]))
    assert needed[1] - needed[0] == pytest.approx(60 * each / 1e6, abs=15)


def test_a_checkpoint_is_refused_if_the_tensors_need_several_rounds(
    network: tuple[Path, Path], tmp_path: Path
) -> None:
    needed = re.search(r"(\d+)MB to be", calibrate_in_child(*network, memory="50MB")["error"])
    assert needed
    state = str(tmp_path / "state")
    found = calibrate_in_child(*network, memory=f"{int(needed[1]) + 2}MB", checkpoint=state)
    assert "a checkpoint cannot be kept over several rounds; give more memory" in found["error"]
    assert not Path(state).exists()


def test_64_times_as_many_samples_take_less_than_20_mb_more(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    onnx.save(build_network(CONV + "y = Relu(c)", {"x": ("n", 3, 32, 32)}, **WB), model)
    peaks = []
    for count in (8, 512):
        data = tmp_path / f"{count}.npz"
        x = np.random.default_rng(count).normal(size=(count, 3, 32, 32))
        np.savez(data, x=x.astype(np.float32))
        peaks.append(calibrate_in_child(model, data)["peak"])
    assert peaks[1] - peaks[0] < 20e6


@pytest.mark.parametrize("memory", ["much", "500", 5, "5 kB"])
def test_a_limit_that_is_no_size_is_refused(memory: object) -> None:
    data = {"x": np.zeros((1, 3, 256, 256), np.float32)}
    with pytest.raises(ptq.UsageError, match=r"memory .* is not a size such as 500MB"):
        ptq.calibrate(NETWORK, data, memory=memory)  # type: ignore[arg-type] # a mistake


def test_several_workers_refuse_a_limit(network: tuple[Path, Path]) -> None:
    with pytest.raises(ptq.UsageError, match="memory limits one process; use one worker"):
        ptq.calibrate(*network, workers=2, memory="1GB")


def test_a_session_computes_each_tensor_as_one_that_returns_all() -> None:
    graph = prepare(Graph.from_proto(NETWORK)).graph
    names = [name for name in list_tensors_to_collect(graph).names if name != "x"]
    feed = {"x": np.random.default_rng(1).normal(size=(1, 3, 256, 256)).astype(np.float32)}
    whole = open_session_with_outputs(graph, CollectedTensors(names), threads=1).run(feed, names)
    for name, expected in zip(names, whole, strict=True):
        held = [other for other in names if other != name]
        one = open_session_with_outputs(graph, CollectedTensors([name]), held=held, threads=1)
        [found] = one.run(feed, [name])
        assert found.tobytes() == expected.tobytes()
        assert not {*held} & {*one.outputs} - {"y"}
