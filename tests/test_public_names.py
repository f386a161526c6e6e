"""The names that ptq promises, against what the package holds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import types
from importlib.metadata import version
from pathlib import Path

import pytest
from document_blocks import python_blocks

import ptq
import ptq.core.errors

_TYPED = """
from collections.abc import Mapping, Sequence
from typing import Any
import numpy as np
from numpy.typing import NDArray

ptq.Preprocess(size=(96, 96), letterbox=114, mean=0, std=1)
given = ptq.Preprocess(mean=[0.5], std=np.array([0.5]))
read: tuple[float, ...] | None = given.mean


def score(outputs: Sequence[dict[str, NDArray[np.float32]]], samples: Sequence[ptq.Sample]) -> float:
    return 1.0


def rate(outputs: Sequence[Mapping[str, NDArray[Any]]], samples: list[ptq.Sample]) -> list[float]:
    return [1.0]


ptq.quantize("m.onnx", "images/", metric=score)
ptq.evaluate("m.onnx", "images/", metric=rate)
"""
ROOT = Path(__file__).resolve().parents[1]


def test_all_lists_existing_names_in_order():
    assert sorted(ptq.__all__) == ptq.__all__
    assert [name for name in ptq.__all__ if not hasattr(ptq, name)] == []


@pytest.mark.parametrize(
    "verb", ["calibrate", "evaluate", "inspect", "quantize", "sensitivity", "verify"]
)
def test_a_verb_is_a_function_and_not_the_module_of_its_name(verb):
    assert isinstance(getattr(ptq, verb), types.FunctionType)


def test_every_error_that_leaves_ptq_is_public():
    errors = {name for name, value in vars(ptq.core.errors).items() if isinstance(value, type)}
    assert errors <= set(ptq.__all__)


def test_a_type_checker_takes_the_first_examples_and_what_the_documents_say(tmp_path: Path):
    """Types that hold at run time hold for mypy too, in the mode of the project."""
    pytest.importorskip("mypy", reason="mypy is not installed; the extra dev")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    [example] = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    script = tmp_path / "example.py"
    script.write_text(f"{example}\n{python_blocks('python')[0]}\n{_TYPED}", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", str(script)], cwd=ROOT, env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.startswith("Success"), done.stdout


def test_the_version_is_that_of_the_distribution():
    assert ptq.__version__ == version("onnx-ptq")


def test_the_changelog_and_the_documents_name_the_version_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## \[(\d\S*)\]", changes, re.MULTILINE)[0] == project["version"]
    assert changes.index("## [Unreleased]") < changes.index(f"## [{project['version']}]")
    header = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    assert f'"ptq_version": "{project["version"]}"' in header
    wheel = (ROOT / "examples" / "ci" / "quantize.yml").read_text(encoding="utf-8")
    assert f"onnx_ptq-{project['version']}-py3" in wheel
