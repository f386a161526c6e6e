"""The names that ptq promises, against what the package holds."""

from __future__ import annotations

import re
import tomllib
import types
from importlib.metadata import version
from pathlib import Path

import pytest

import ptq
import ptq.core.errors

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
