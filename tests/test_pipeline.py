"""The pipeline of examples/ci, as a user runs it, with a real MLflow server on the loopback."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from networks import build_network, gaussian_array, random_feeds
from parts import CONV, WB

ROOT = Path(__file__).resolve().parents[1]
MODEL = build_network(
    CONV + "r = Relu(c)\nf = Flatten(r)\ny = Gemm(f, m)",
    {"x": ("n", 3, 8, 8)},
    m=gaussian_array(512, 10, scale=0.1),
    **WB,
)
SERVER_PACKAGES = ("mlflow", "aiohttp", "alembic", "flask", "flask_cors", "sqlalchemy")
MISSING = [name for name in SERVER_PACKAGES if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"{', '.join(MISSING)} not installed; pip install onnx-ptq[data-test]"
)
ENVIRONMENT = {
    **os.environ,
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # 8 more processes, which outlive the server
}
START_SECONDS = 900  # 10 s of one free processor; a loaded machine took more than 200 s


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real server with SQLite; its address."""
    place = tmp_path_factory.mktemp("mlflow")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port),
        "--workers", "1", "--backend-store-uri", f"sqlite:///{place}/runs.db",
        "--artifacts-destination", str(place / "artifacts"),
    ]  # fmt: skip
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=place, env=ENVIRONMENT)
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_until_it_answers(f"{address}/health", process, place / "log")
        yield address
    finally:
        process.terminate()
        process.wait(120)


def _wait_until_it_answers(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except OSError:
            assert process.poll() is None, log.read_text()
            time.sleep(0.5)
    pytest.fail(log.read_text())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A model, and samples that it gets right."""
    onnx.save(MODEL, tmp_path / "model.onnx")
    x = np.concatenate([feed["x"] for feed in random_feeds(MODEL, 120)])
    session = onnxruntime.InferenceSession(MODEL.SerializeToString())
    (scores,) = session.run(None, {"x": x})
    np.savez(tmp_path / "data.npz", x=x, labels=np.asarray(scores).argmax(1))
    return tmp_path


@pytest.mark.parametrize(("max_drop", "code"), [("90", 0), ("0.001", 3)])
def test_the_pipeline_gates_logs_and_summarizes(server, place, max_drop, code):
    script = str(ROOT / "examples" / "ci" / "pipeline.py")
    environment = {
        **ENVIRONMENT,
        "MLFLOW_TRACKING_URI": server,
        "GITHUB_STEP_SUMMARY": str(place / "summary.md"),
    }
    done = subprocess.run(
        [sys.executable, script, "model.onnx", "data.npz", "int8.onnx", max_drop],
        cwd=place, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert ("error: budget of" in done.stderr) == (code == 3)
    assert (place / "summary.md").read_text().startswith("### model.onnx: target ort")
    onnx.checker.check_model(onnx.load(place / "int8.onnx"))
    run = _newest_run(server)
    metrics = {metric["key"]: metric["value"] for metric in run["data"]["metrics"]}
    assert {"key": "target", "value": "ort"} in run["data"]["params"]
    assert metrics["int8_sqnr_db"] > 20
    assert metrics["max_drop"] == float(max_drop)
    artifacts = _artifacts(server, run["info"])
    assert set(artifacts) == {
        "model.int8.onnx", "plan.json", "report.html", "report.json", "report.md",
    }  # fmt: skip
    assert artifacts["model.int8.onnx"] == (place / "int8.onnx").read_bytes()
    assert json.loads(artifacts["report.json"])["target"] == "ort"
    assert json.loads(artifacts["plan.json"])["target"] == "ort"


def _newest_run(server: str) -> dict[str, Any]:
    """The last run as the server knows it."""
    request = urllib.request.Request(
        f"{server}/api/2.0/mlflow/runs/search",
        data=json.dumps({"experiment_ids": ["0"], "max_results": 1}).encode(),
        headers={"Content-Type": "application/json"},
    )
    (run,) = json.loads(_read(request))["runs"]
    assert isinstance(run, dict)
    return run


def _artifacts(server: str, info: Mapping[str, str]) -> dict[str, bytes]:
    """Content of the files that the server stores for a run, by name."""
    query = urllib.parse.urlencode({"run_id": info["run_id"], "path": "ptq"})
    files = json.loads(_read(f"{server}/api/2.0/mlflow/artifacts/list?{query}"))["files"]
    place = info["artifact_uri"].removeprefix("mlflow-artifacts:/")
    stored = f"{server}/api/2.0/mlflow-artifacts/artifacts/{place}"
    return {Path(f["path"]).name: _read(f"{stored}/{f['path']}") for f in files}


def _read(request: str | urllib.request.Request) -> bytes:
    with urllib.request.urlopen(request, timeout=60) as answer:
        return bytes(answer.read())
