from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.random import default_rng
from onnx import helper, numpy_helper
from ptq_cli.main import app
from ptq_cli.process import run

CLASSES, SAMPLES = 4, 24


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def line(self) -> str:
        """What stands on standard error, which must be one line."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        return lines[0]


Ptq = Callable[..., Outcome]


@pytest.fixture
def ptq(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ptq:
    """Run the command line in this process."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("PTQ_TRACEBACK", raising=False)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)

    def call(*arguments: object) -> Outcome:
        capsys.readouterr()
        code = run(app, [str(a) for a in arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder of its own, with model.onnx and data.npz in a folder beside it."""
    (tmp_path / "given").mkdir()
    (tmp_path / "work").mkdir()
    onnx.save(_model(), tmp_path / "given" / "model.onnx")
    rng = default_rng(7)
    np.savez(
        tmp_path / "given" / "data.npz",
        x=rng.standard_normal((SAMPLES, 3, 8, 8)).astype(np.float32),
        labels=rng.integers(0, CLASSES, SAMPLES),
    )
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


@pytest.fixture
def model(folder: Path) -> Path:
    """A float model: Conv, Relu, GlobalAveragePool, Flatten, Gemm."""
    return folder / "given" / "model.onnx"


@pytest.fixture
def data(folder: Path) -> Path:
    """Labelled samples for it."""
    return folder / "given" / "data.npz"


def _model() -> onnx.ModelProto:
    rng = default_rng(3)
    constants = {
        "w1": rng.standard_normal((6, 3, 3, 3)),
        "b1": rng.standard_normal(6),
        "w2": rng.standard_normal((CLASSES, 6)),
        "b2": rng.standard_normal(CLASSES),
    }
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w1", "b1"], ["c"], name="conv", pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["r"], name="relu"),
            helper.make_node("GlobalAveragePool", ["r"], ["g"], name="pool"),
            helper.make_node("Flatten", ["g"], ["f"], name="flatten"),
            helper.make_node("Gemm", ["f", "w2", "b2"], ["y"], name="head", transB=1),
        ],
        "tiny",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", 3, 8, 8])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["N", CLASSES])],
        [numpy_helper.from_array(a.astype(np.float32), n) for n, a in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
