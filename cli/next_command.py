"""The command to run next, complete and on one line, as a shell takes it."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptq.core.remote import redact

if TYPE_CHECKING:
    from ptq.data import Preparation

VERIFIED = 16
"""Samples of which every integer is compared; each has millions."""


def suggest_after_quantize(
    output: Path,
    samples: str | None,
    *,
    count: int,
    skip_bad_samples: bool,
    unrecorded: Mapping[str, Any],
    static_batch: int | None,
    has_integers: bool,
) -> str:
    """The verification of a quantized model on the same samples; its inspection where it cannot run them.

    Without integers there is nothing to verify; the inspection gives the reasons.

    Args:
        output: The quantized model.
        samples: The samples that accuracy was measured on.
        count: Their number. Of more than `VERIFIED` only that many are verified, because the executor may take
            seconds for each.
        skip_bad_samples: Whether bad samples are left out.
        unrecorded: Preprocessing options that the model's metadata do not record; see `list_unrecorded`.
        static_batch: The batch that the quantized model has alone; None for any. Samples are single ones.
        has_integers: Whether a node of the model computes on integers.
    """
    if samples is None or static_batch not in (None, 1) or not has_integers:
        return format_command(["ptq", "inspect", _as_argument(output)])
    some = ["--samples", str(VERIFIED)] if count > VERIFIED else []
    skip = ["--skip-bad-samples"] if skip_bad_samples else []
    options = _list_preprocessing_arguments(unrecorded)
    return format_command(
        ["ptq", "verify", _as_argument(output), "--data", samples, *some, *skip, *options]
    )


def list_unrecorded(
    given: Preparation | None,
    applied: Mapping[str, Any],
    evaluated: Mapping[str, Any] | None,
    *,
    metadata: bool,
) -> Mapping[str, Any]:
    """The preprocessing options that a run on the quantized model needs, because its metadata do not record them.

    Args:
        given: What the user gave.
        applied: What was applied to calibration samples, by the names of options; empty for arrays.
        evaluated: What was applied to evaluation samples, if it differs; else None.
        metadata: Whether the model's metadata record what was applied to calibration samples.
    """
    tokenizer = getattr(given, "tokenizer", None)  # no record holds a path
    if tokenizer is not None:
        return {"tokenizer": os.fspath(tokenizer)}
    if metadata and (applied or not evaluated):
        return {}
    used = applied if evaluated is None else evaluated
    follows_from_model = ("length", "length_rule")
    return {k: v for k, v in used.items() if k not in follows_from_model}


def suggest_after_calibrate(model: Path, statistics: Path, opset: str) -> str:
    """The quantization of a model with its statistics, which belong to one opset."""
    options = [] if opset == "auto" else ["--opset", opset]
    return format_command(
        ["ptq", "quantize", _as_argument(model), "--stats", str(statistics), *options]
    )


def format_command(arguments: Sequence[str]) -> str:
    """Arguments as one line, quoted for the shell of this system; URLs without user, password and query."""
    shown = [redact(argument) for argument in arguments]
    return subprocess.list2cmdline(shown) if os.name == "nt" else shlex.join(shown)


def _as_argument(path: Path) -> str:
    """A path that is no option, even if the file name starts with a dash."""
    text = str(path)
    return os.path.join(os.curdir, text) if text.startswith("-") else text


def _list_preprocessing_arguments(options: Mapping[str, Any]) -> list[str]:
    """``--mean=0.5,0.5,0.5`` and so on; one argument each, because a value may start with a minus."""
    return [
        f"--{name.replace('_', '-')}="
        + ",".join(map(str, value if isinstance(value, list) else [value]))
        for name, value in options.items()
    ]
