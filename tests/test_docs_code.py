"""Short Python blocks of the documents run on a small network, with the names that their texts speak of."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from document_blocks import DOCS, python_block, python_blocks
from networks import build_network
from onnxruntime import InferenceSession
from onnxruntime.quantization import CalibrationDataReader
from PIL import Image
from small_classifier import build_small_classifier

import ptq

RUN = {
    "coming_from": ("quantize_static", "skip=", "samples=300", "max_drop="),
    "frontier": ("ptq.frontier",),
    "json": ("schema.json",),
    "tasks": ("ptq.evaluate",),
    "tutorial_photos": ("session.run",),
}
"""What a block of each page contains that is run here."""
RUNTIMES = {
    "ai_edge_litert": ("model.tflite", {"target": "litert"}),
    "openvino": ("model.ov.onnx", {"target": "openvino"}),
    "onnxruntime_qnn": ("model.qnn.onnx", {"target": "qnn", "static_batch": 1}),
}
"""Packages of runtimes that a block of targets.md imports: the file that it opens, and how that is made."""
ELSEWHERE = {"coming_from": ("import nncf", "neural_compressor")}
"""Blocks that test_docs_other_tools.py runs."""


class _Reader(CalibrationDataReader):  # type: ignore[misc]
    """Feeds of ONNX Runtime's interface."""

    def __init__(self, x: np.ndarray) -> None:
        self.feeds = iter([{"input": row[None]} for row in x])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.feeds, None)


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """The files and names that the blocks use; a current folder of their own."""
    monkeypatch.chdir(tmp_path)
    network = build_small_classifier()
    network.graph.node[2].name = "/head/Conv"
    onnx.save(network, "model.onnx")
    rng = np.random.default_rng(0)
    Path("images").mkdir()
    for k in range(60):
        pixels = rng.integers(0, 256, (16, 16, 3), np.uint8)
        Image.fromarray(pixels).save(f"images/{k:02}.png")
    x = rng.normal(size=(40, 3, 16, 16)).astype(np.float32)
    made = ptq.quantize("model.onnx", "images/", method="minmax", effort="fast", threads=1)
    made.save("model.int8.onnx")
    return {
        "ptq": ptq,
        "reader": _Reader(x),
        "loader": [{"input": row[None]} for row in x],
        "transform": lambda item: item,
        "pixels": x[:1],
        "images": x[:1].transpose(0, 2, 3, 1),
    }


@pytest.mark.parametrize("page", RUN)
def test_the_short_code_of_a_page_runs(page: str, session: dict[str, object]) -> None:
    for part in RUN[page]:
        block = python_block(page, part)
        if "reader" in block:
            session["reader"] = _Reader(np.asarray(session["pixels"]).repeat(40, axis=0))
        exec(compile(block, f"{page}.md", "exec"), session)


@pytest.mark.parametrize("package", RUNTIMES)
def test_the_code_that_opens_a_result_in_its_runtime_runs(
    package: str, session: dict[str, object]
) -> None:
    pytest.importorskip(package, reason=f"{package} is not installed")
    file, given = RUNTIMES[package]
    ptq.quantize("model.onnx", "images/", effort="fast", threads=1, **given).save(file)  # type: ignore[arg-type]
    block = python_block("targets", package)
    np.save("pixels.npy", session["pixels"])  # type: ignore[arg-type]
    names = (
        "import numpy as np; pixels = np.load('pixels.npy'); images = pixels.transpose(0, 2, 3, 1)"
    )
    # in a process of its own, because ptq has registered QNN's provider in this one
    subprocess.run([sys.executable, "-c", f"{names}\n{block}"], check=True)


def test_the_code_for_mlflow_logs_a_run(
    session: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("mlflow", "sqlalchemy", "alembic"):
        pytest.importorskip(package, reason=f"{package} is not installed; the extra data-test")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///runs.db")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    # in a process of its own, because MLflow remembers the server of test_pipeline.py
    block = python_block("ci", "ptq.log_to_mlflow")
    subprocess.run([sys.executable, "-c", f"import ptq\n{block}"], check=True)
    [model] = Path("mlruns").glob("**/artifacts/ptq/model.int8.onnx")
    onnx.checker.check_model(onnx.load(model))


def test_the_code_for_weights_and_biases_runs_without_a_server(
    session: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    session["result"] = ptq.quantize("model.onnx", "images/", effort="fast", threads=1)
    block = python_block("ci", "import wandb")
    exec(compile(block, "ci.md", "exec"), session)
    wandb.teardown()  # its own process may write the last bytes after the run has ended
    [run] = Path("wandb").glob("offline-run-*/*.wandb")
    assert b"calibration_samples" in run.read_bytes()


def test_the_code_for_constants_that_an_exporter_left_as_inputs_makes_them_constants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = ["image", "normalization/Sub/y:0", "normalization/Sqrt/x:0"]
    network = build_network("y = Sum(image, mean, variance)", dict.fromkeys(names, (1, 1, 1, 3)))
    network.graph.node[0].input[:] = names
    onnx.save(network, "exported.onnx")
    layer = SimpleNamespace(mean=[1.0, 2.0, 3.0], variance=np.float64([[4, 5, 6]]))
    block = python_block("troubleshooting", "numpy_helper")
    exec(compile(block, "troubleshooting.md", "exec"), {"layer": layer})
    session = InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
    [value] = session.get_inputs()
    [y] = session.run(None, {value.name: np.zeros((1, 1, 1, 3), np.float32)})
    np.testing.assert_array_equal(y.ravel(), [5, 7, 9])


def test_every_short_block_is_run_or_named() -> None:
    for page in sorted({*RUN, *ELSEWHERE, "ci", "targets"}):
        known = (*RUN.get(page, ()), *ELSEWHERE.get(page, ()))
        known += tuple(RUNTIMES) if page == "targets" else ()
        known += ("import wandb", "ptq.log_to_mlflow") if page == "ci" else ()
        blocks = python_blocks(page)
        assert blocks
        assert [b for b in blocks if not any(part in b for part in known)] == []


def test_every_page_with_code_has_a_test() -> None:
    tested = {
        *RUN,
        *ELSEWHERE,
        "ci",
        "targets",
        "troubleshooting",
        "arithmetic",
        "data",
        "extending",
        "python",
        "tutorial_arrays",
    }
    with_code = {p.stem for p in DOCS.glob("*.md") if "```python" in p.read_text(encoding="utf-8")}
    assert with_code <= tested
