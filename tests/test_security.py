"""What SECURITY.md says of hostile models; the file system and the process are the oracle."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from networks import build_network, random_feeds
from onnx import TensorProto

import ptq
from ptq.core.errors import ModelError

MODEL = build_network("y = MatMul(x, w)", {"x": (1, 4)}, w=np.ones((4, 4), np.float32))
SECRET = np.full((4, 4), 7, np.float32).tobytes()


def outside(model: onnx.ModelProto, **where: str) -> onnx.ModelProto:
    """The model with its weight in another file."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    tensor = changed.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in where.items():
        tensor.external_data.add(key=key, value=value)
    return changed


def _symlink(folder: Path) -> str:
    (folder / "w.bin").symlink_to(folder.parent / "secret")
    return "w.bin"


def _hardlink(folder: Path) -> str:
    (folder / "w.bin").hardlink_to(folder.parent / "secret")
    return "w.bin"


def _linked_folder(folder: Path) -> str:
    (folder / "sub").symlink_to(folder.parent)
    return "sub/secret"


def _pipe(folder: Path) -> str:
    os.mkfifo(folder / "w.bin")
    return "w.bin"


ATTACKS: dict[str, Callable[[Path], str]] = {
    "traversal": lambda folder: "../secret",
    "absolute": lambda folder: str(folder.parent / "secret"),
    "symbolic link": _symlink,
    "hard link": _hardlink,
    "linked folder": _linked_folder,
    "pipe": _pipe,
    "device": lambda folder: "/dev/zero",
    "folder": lambda folder: ".",
    "missing": lambda folder: "none.bin",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_model_reads_no_file_but_its_own(tmp_path: Path, attack: str) -> None:
    (tmp_path / "secret").write_bytes(SECRET)
    folder = tmp_path / "model"
    folder.mkdir()
    model = outside(MODEL, location=ATTACKS[attack](folder))
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    before = sorted(os.listdir(folder))
    with pytest.raises(ModelError) as caught:
        ptq.quantize(folder / "model.onnx", random_feeds(MODEL))
    assert "\n" not in str(caught.value)
    assert sorted(os.listdir(folder)) == before


@pytest.mark.parametrize(
    ("key", "value"), [("offset", "9999"), ("offset", "-4"), ("length", "999999999999")]
)
def test_no_bytes_beyond_a_file_of_weights_are_read(tmp_path: Path, key: str, value: str) -> None:
    (tmp_path / "w.bin").write_bytes(SECRET)
    model = outside(MODEL, location="w.bin", **{key: value})
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelError):
        ptq.inspect(tmp_path / "model.onnx")


def test_weights_beside_the_model_are_read(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(SECRET)
    (tmp_path / "model.onnx").write_bytes(outside(MODEL, location="w.bin").SerializeToString())
    assert ptq.quantize(tmp_path / "model.onnx", random_feeds(MODEL)).plan.operands


def test_a_model_in_memory_names_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "w.bin").write_bytes(SECRET)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match="weights of w are in another file"):
        ptq.inspect(outside(MODEL, location="w.bin"))


def test_onnxruntime_is_loaded_without_telemetry() -> None:
    code = (
        "import os, sys; os.environ.pop('ORT_DISABLE_TELEMETRY', None); assert 'onnxruntime' not in sys.modules\n"
        "import ptq; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "1"


def test_a_choice_about_telemetry_that_was_made_is_left_as_it_is() -> None:
    code = "import os, ptq; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    environment = {**os.environ, "ORT_DISABLE_TELEMETRY": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True
    )
    assert done.stdout.strip() == "0"


SOURCES = [
    *Path(ptq.__file__).parent.rglob("*.py"),
    *Path(__file__).parents[1].joinpath("cli").rglob("*.py"),
]
FORBIDDEN = (
    "import pickle",
    "eval(",
    "exec(",
    "allow_pickle=True",
    "register_custom_ops",
    "os.system",
)


@pytest.mark.parametrize("what", FORBIDDEN)
def test_nothing_that_runs_foreign_code_stands_in_the_source(what: str) -> None:
    found = [
        f"{path.name}:{number}"
        for path in SOURCES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if what in line.replace("ast.literal_eval(", "") and f"re.{what}" not in line
    ]
    assert found == []


def test_a_file_is_never_taken_for_a_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loot.py").write_text("raise SystemExit('ran')")
    (tmp_path / "loot:samples").mkdir()
    with pytest.raises(ptq.DataError, match="no samples"):
        ptq.calibrate(MODEL, "loot:samples")
