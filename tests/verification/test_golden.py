"""The recorded vectors of LiteRT and ONNX Runtime, run as ``scripts/golden`` runs them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from golden import run_golden_cases

from ptq.core.errors import DataError

TESTS = Path(__file__).parents[1]
VECTORS = TESTS / "vectors"
SCRIPT = TESTS.parent / "scripts" / "golden"


@pytest.mark.parametrize(
    "runtime", ["litert", "litert-xnnpack", "ort", "ort-1.28", "ort-1.31", "ort-1.32"]
)
def test_every_vector_of_the_runtime_is_reproduced_to_the_bit(runtime: str) -> None:
    index = json.loads((VECTORS / runtime / "index.json").read_text())
    scores = run_golden_cases([VECTORS / runtime])
    assert [(s.op, s.wrong, s.refused) for s in scores if s.wrong or s.refused] == []
    assert sum(s.cases for s in scores) == len(index["cases"])
    assert all(s.elements for s in scores)


@pytest.mark.parametrize(
    ("recorded", "arithmetic"),
    [("ort-1.28", "ort@1.29"), ("ort-1.31", "ort@1.28"), ("ort-1.31", "ort@1.32"), ("ort-1.32", "ort-avx2@1.31")],
)  # fmt: skip
def test_the_vectors_tell_versions_of_onnx_runtime_apart(recorded: str, arithmetic: str) -> None:
    (score,) = run_golden_cases([VECTORS / recorded], None, arithmetic)
    assert score.wrong > 0


@pytest.mark.parametrize(
    ("recorded", "arithmetic"),
    [("ort-1.28", "ort@1.20"), ("ort-1.31", "ort@1.29"), ("ort-1.31", "ort-avx2@1.30")],
)
def test_versions_without_a_change_between_them_compute_the_same(
    recorded: str, arithmetic: str
) -> None:
    (score,) = run_golden_cases([VECTORS / recorded], None, arithmetic)
    assert (score.wrong, score.refused) == (0, ())


def tampered(folder: Path) -> Path:
    """A copy of ONNX Runtime's vectors in which one element of one output is off by one."""
    shutil.copytree(VECTORS / "ort", folder)
    path = folder / "qlinearmul_1.npz"
    arrays = dict(np.load(path))
    arrays["output"][3, 5] += 1
    np.savez(path, **arrays)
    return folder


def test_one_wrong_element_is_counted_and_its_case_named(tmp_path: Path) -> None:
    (score,) = run_golden_cases([tampered(tmp_path / "v")], frozenset(["QLinearMul"]))
    assert (score.cases, score.wrong, score.failed) == (2, 1, ("qlinearmul_1 (ort@1.31)",))


def test_a_case_of_an_unknown_operator_counts_as_refused(tmp_path: Path) -> None:
    folder = tampered(tmp_path / "v")
    index = json.loads((folder / "index.json").read_text())
    index["cases"] = [c | {"op": "QLinearNothing"} for c in index["cases"][:1]]
    (folder / "index.json").write_text(json.dumps(index))
    (score,) = run_golden_cases([folder])
    assert "cases of QLinearNothing cannot be read" in score.refused[0]


def test_a_folder_without_an_index_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no readable index\.json"):
        run_golden_cases([tmp_path])


def script(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_script_succeeds_on_the_vectors_and_restricts_operators() -> None:
    done = script(str(VECTORS / "litert"), str(VECTORS / "ort"), "--ops", "SUB,QLinearAdd")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("2 operators, 4 cases")


def test_the_script_fails_on_a_wrong_element(tmp_path: Path) -> None:
    done = script(str(tampered(tmp_path / "v")))
    assert done.returncode == 1
    assert "QLinearMul: qlinearmul_1 (ort@1.31) differs" in done.stdout
