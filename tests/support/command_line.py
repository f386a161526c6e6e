"""Runs the command line in this process, and reads what it prints and writes."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
from pathlib import Path
from typing import Any

import onnx
from ptq_cli.main import app
from ptq_cli.process import run

FAST = ("--threads", 1, "--rounding", "nearest", "--no-equalize", "--method", "minmax")
"""Options of ``quantize`` without trials."""


def call(*arguments: object) -> tuple[int, str]:
    """The exit code of a command, and what it prints on both streams."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        code = run(app, [str(a) for a in arguments])
    return code, printed.getvalue()


def say(*arguments: object) -> str:
    """What a command prints that must succeed."""
    code, printed = call(*arguments)
    assert code == 0, printed
    return printed


def report(*arguments: object) -> dict[str, Any]:
    """The JSON of a command that must succeed."""
    say(*arguments, "--json", "out.json")
    found: dict[str, Any] = json.loads(Path("out.json").read_text())
    return found


def top1(document: dict[str, Any]) -> float:
    """Share of right samples of the first form in a JSON document."""
    forms = document.get("evaluation", document)["forms"]
    share: float = next(iter(forms.values()))["accuracy"]["top1"]
    return share


def metadata(path: str) -> dict[str, str]:
    """The entries of a model's metadata."""
    return {entry.key: entry.value for entry in onnx.load(path).metadata_props}


def records(path: str) -> dict[str, Any]:
    """The entries of a model's metadata, which must be JSON."""
    return {key: json.loads(value) for key, value in metadata(path).items()}


def next_command(printed: str) -> list[str]:
    """The arguments of the command that is proposed, which stands on one line."""
    [command] = re.findall(r"Next: (ptq .*)$", printed, re.MULTILINE)
    return shlex.split(command)[1:]
