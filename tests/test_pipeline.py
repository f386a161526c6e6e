"""The pipeline of examples/ci, as a user runs it, with a real MLflow server on the loopback."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

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
pytest.importorskip("mlflow", reason="logs to MLflow; pip install onnx-ptq[mlflow]")


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
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=place)
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_until_it_answers(f"{address}/health", process, place / "log")
        yield address
    finally:
        process.terminate()
        process.wait(30)


def _wait_until_it_answers(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(480):
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
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
        **os.environ,
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
    run, artifacts = _newest_run(server, place)
    assert run["data"]["params"]["target"] == "ort"
    assert run["data"]["metrics"]["int8_sqnr_db"] > 20
    assert run["data"]["metrics"]["max_drop"] == float(max_drop)
    assert {"model.int8.onnx", "plan.json", "report.json", "report.html"} <= artifacts.keys()
    assert artifacts["model.int8.onnx"] == (place / "int8.onnx").read_bytes()
    assert json.loads(artifacts["report.json"])["target"] == "ort"


def _newest_run(
    server: str, place: Path
) -> tuple[dict[str, dict[str, dict[str, float]]], dict[str, bytes]]:
    """The last run as the server knows it, and the content of its artifacts."""
    reader = (
        "import json, mlflow, sys\n"
        "run = mlflow.MlflowClient().search_runs(['0'], max_results=1)[0]\n"
        "mlflow.artifacts.download_artifacts(run_id=run.info.run_id, artifact_path='ptq', dst_path='got')\n"
        "json.dump(run.to_dictionary(), open('run.json', 'w'))\n"
    )
    environment = {**os.environ, "MLFLOW_TRACKING_URI": server}
    subprocess.run([sys.executable, "-c", reader], cwd=place, env=environment, check=True)
    artifacts = {p.name: p.read_bytes() for p in (place / "got" / "ptq").iterdir()}
    return json.loads((place / "run.json").read_text()), artifacts
