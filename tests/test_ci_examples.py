"""The examples for continuous integration: they load, and their commands and options exist."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from networks import build_network, gaussian_array
from parts import CONV, WB
from ptq_cli import lint_files
from ptq_cli.main import app
from typer.main import get_command

import ptq

ROOT = Path(__file__).resolve().parents[1]


def test_every_command_of_the_workflow_exists_with_its_options():
    yaml = pytest.importorskip("yaml", reason="reads the workflow; pip install pyyaml")
    workflow = yaml.safe_load((ROOT / "examples/ci/quantize.yml").read_text())
    steps = [step["run"] for step in workflow["jobs"]["quantize"]["steps"] if "run" in step]
    commands = [shlex.split(step) for step in steps if step.startswith("ptq ")]
    known = getattr(get_command(app), "commands")  # noqa: B009 # of a group; untyped
    assert [words[1] for words in commands] == ["quantize", "compare", "verify"]
    for words in commands:
        options = {name for p in known[words[1]].params for name in p.opts}
        assert {word for word in words if re.match("--?[a-z]", word)} <= options


def test_the_hook_runs_on_committed_models(tmp_path):
    model = build_network(CONV + "y = Relu(c)", {"x": ("n", 3, 8, 8)}, m=gaussian_array(2, 2), **WB)
    x = np.random.default_rng(0).normal(size=(20, 3, 8, 8)).astype(np.float32)
    litert = ptq.quantize(model, {"x": x}, target="litert", threads=1)
    other = ptq.quantize(model, {"x": x}, target="ort", threads=1)
    litert.save(tmp_path / "good.int8.onnx")
    other.save(tmp_path / "bad.int8.onnx")
    onnx.save(model, tmp_path / "float.onnx")

    def lint(*files):
        command = [sys.executable, "-m", "ptq_cli.lint_files", "--target=litert", *files]
        return subprocess.run(
            command, cwd=tmp_path, capture_output=True, check=False, text=True
        ).returncode

    assert lint("good.int8.onnx") == 0
    assert lint("good.int8.onnx", "bad.int8.onnx") == 1
    assert lint("float.onnx") == 1


def test_an_option_of_the_hook_may_stand_before_its_value():
    given, files = lint_files._split_arguments(
        ["--target", "litert", "-q", "a.onnx", "--target=ort", "b.onnx"]
    )
    assert given == ["--target", "litert", "-q", "--target=ort"]
    assert files == ["a.onnx", "b.onnx"]


def test_the_hook_names_the_module():
    yaml = pytest.importorskip("yaml", reason="reads the hook; pip install pyyaml")
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["entry"] == "python -m ptq_cli.lint_files"
    assert re.search(hook["files"], "models/a.int8.tflite")
    assert not re.search(hook["files"], "models/a.onnx")
