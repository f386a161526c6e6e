"""docs/coming_from.md: the code of other tools runs in them, and what the tables call their options is theirs.

NNCF is imported where it is installed. Neural Compressor 2.6 cannot live beside ptq, which needs a newer onnx: the
variable PTQ_INC_PYTHON names the interpreter of its own environment (`.ci/run`).
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from document_blocks import python_block, sections
from small_classifier import build_small_classifier

import ptq

QUANTIZE_STATIC, NNCF, INC = (
    "From `quantize_static` of ONNX Runtime",
    "From NNCF",
    "From Intel Neural Compressor (INC) 2",
)
ROWS = 40


class Loader:
    """Pairs of input and label, with the attribute that Neural Compressor asks for; the model's accuracy."""

    batch_size = 1

    def __iter__(self) -> Iterator[tuple[np.ndarray, int]]:
        rows = np.random.default_rng(0).normal(size=(ROWS, 1, 3, 16, 16)).astype(np.float32)
        return iter([(row, 0) for row in rows])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model."""
    network = build_small_classifier()
    onnx.save(network, tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _count_quantizers(path: Path) -> int:
    return [node.op_type for node in onnx.load(path).graph.node].count("QuantizeLinear")


def _run(block: str, **names: object) -> None:
    exec(compile(block, "coming_from.md", "exec"), names)


def _inc_python() -> str:
    return os.environ.get("PTQ_INC_PYTHON") or pytest.skip(
        "PTQ_INC_PYTHON names no interpreter with neural-compressor 2.6 and onnx 1.17"
    )


def test_the_code_of_nncf_runs_and_that_of_ptq_takes_the_same_loader(folder: Path):
    pytest.importorskip("nncf", reason="nncf is not installed")
    loader = [{"pixels": row} for row, _ in Loader()]
    given = {"loader": loader, "transform": lambda item: {"input": item["pixels"]}}
    _run(python_block("coming_from", "import nncf"), **given)
    assert _count_quantizers(folder / "quantized.onnx") >= 2
    _run(python_block("coming_from", "samples=300"), **given)
    # a small first layer stays float for OpenVINO
    assert _count_quantizers(folder / "model.ov.onnx") >= 1


INC_PROGRAM = """
import numpy as np

class Loader:
    batch_size = 1
    def __iter__(self):
        return iter([(row, 0) for row in np.load("rows.npy")])

loader, evaluate = Loader(), lambda model: 1.0
"""


def test_the_code_of_neural_compressor_runs(folder: Path):
    python = _inc_python()
    np.save("rows.npy", np.stack([row for row, _ in Loader()]))
    program = INC_PROGRAM + python_block("coming_from", "neural_compressor")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    subprocess.run([python, "-c", program], env=environment, check=True)
    assert _count_quantizers(folder / "quantized.onnx") >= 2


def test_the_code_of_ptq_takes_the_loader_of_neural_compressor(folder: Path):
    _run(python_block("coming_from", "max_drop="), loader=Loader(), ptq=ptq)
    assert _count_quantizers(folder / "model.int8.onnx") >= 1


def _first_column(heading: str) -> set[str]:
    """The names that a table calls the options of the other tool."""
    cells = re.findall(r"^\| (`.*?) \| ", sections("coming_from")[heading], re.MULTILINE)
    spans = [span for cell in cells for span in re.findall(r"`([^`]+)`", cell)]
    return {name for span in spans for name in re.findall(r"[A-Za-z_]\w{2,}", span)} - {"True"}


def _words_of_package(folder: Path) -> set[str]:
    """All names in the Python of a package."""
    return {
        word
        for path in folder.rglob("*.py")
        for word in re.findall(r"\w+", path.read_text(encoding="utf-8", errors="replace"))
    }


def _folder_of(package: str) -> Path:
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        pytest.skip(f"{package} is not installed")
    return Path(found.origin).parent


def test_the_options_of_quantize_static_are_its_own():
    names = _first_column(QUANTIZE_STATIC)
    assert len(names) >= 15
    assert names - _words_of_package(_folder_of("onnxruntime") / "quantization") == set()


def test_the_options_of_nncf_are_its_own():
    names = _first_column(NNCF) - {"loader", "transform"}
    assert len(names) >= 13
    assert names - _words_of_package(_folder_of("nncf")) == set()


def test_the_options_of_neural_compressor_are_its_own():
    names = _first_column(INC)
    assert len(names) >= 13
    where = "import importlib.util as u; print(u.find_spec('neural_compressor').origin)"
    found = subprocess.run([_inc_python(), "-c", where], capture_output=True, text=True, check=True)
    assert names - _words_of_package(Path(found.stdout.strip()).parent) == set()
