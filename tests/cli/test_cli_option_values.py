"""Values of options that are refused: in ptq's own words, with the option's name on the command line, exit code 2."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ptq_cli.main import app
from typer.main import get_command

from ptq.core.errors import UsageError
from ptq.data import InputSpec, Preprocess

COUNT = "is not a whole number"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--format qop", "--format 'qop' is unknown; choose one of qdq, qoperator, tflite"),
        ("--weights u9", "--weights 'u9' is unknown; choose one of auto, s8, reduced, u8"),
        ("--rounding x", "--rounding 'x' is unknown; choose one of second-order, nearest"),
        ("--method foo", "--method 'foo' is unknown; choose one of auto, minmax, percentile, kl"),
        ("--target litter", r"--target 'litter' is unknown; .*\(did you mean litert\?\)"),
        ("--arithmetic x", "--arithmetic 'x' is unknown; choose one of ort, ort-avx2"),
        ("--samples 0", f"--samples 0 {COUNT} of at least 1"),
        ("--samples 1.5", f"--samples '1.5' {COUNT} of at least 1"),
        ("--batch 0", f"--batch 0 {COUNT} of at least 1"),
        ("--threads 2000", f"--threads 2000 {COUNT} from 0 to 1024"),
        ("--max-drop abc", "--max-drop 'abc' is not a finite number of at least 0"),
        ("--max-drop nan", "--max-drop nan is not a finite number of at least 0"),
        ("--resize 0", f"--resize 0 {COUNT} of at least 1"),
        ("--scale x", "--scale 'x' is not a finite number"),
        ("--std 0", "--std 0 is not positive"),
        ("--layout NWHC", r"--layout 'NWHC' is unknown; .*\(did you mean NHWC\?\)"),
    ],
)
def test_a_value_of_quantize_is_refused_in_its_own_words(ptq, model, data, arguments, said):
    result = ptq("quantize", model, "--data", data, *arguments.split())
    assert result.code == 2
    assert re.match(f"error: {said}", result.line)
    assert not re.search("Input should|Value error", result.line)


def test_quantize_without_samples_names_the_options(ptq, model):
    result = ptq("quantize", model)
    assert result.code == 2
    assert result.line == "error: no calibration data: give --data, --stats or --plan"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("calibrate -o s.npz --workers 0", f"--workers 0 {COUNT}"),
        ("evaluate --engine gpu", "--engine 'gpu' is unknown; choose one of ort, integer"),
        ("sensitivity --measure x", f"--measure 'x' {COUNT} of at least 0"),
        ("verify --arithmetic x", "--arithmetic 'x' is unknown"),
    ],
)
def test_values_of_other_commands_too(ptq, model, data, arguments, said):
    verb, *options = arguments.split()
    result = ptq(verb, model, "--data", data, *options)
    assert result.code == 2
    assert result.line.startswith(f"error: {said}")


def test_a_missing_value_points_to_the_help_of_its_command(ptq, model):
    result = ptq("quantize", model, "--data")
    assert result.code == 2
    assert result.line.endswith("see ptq quantize --help")


def test_ptq_alone_prints_its_help(ptq):
    result = ptq()
    assert result.code == 0
    assert result.out.startswith("Usage: ptq")


def test_no_option_is_checked_in_the_voice_of_a_library():
    texts = (str, bool, Path, list[str], list[Path])
    group = get_command(app)
    strangers = [
        f"{name} {parameter.name}"
        for name, command in group.commands.items()
        for parameter in command.params
        if (described := getattr(parameter, "type_descriptor", None)) is not None
        and described.annotation not in texts
        and described.parameter_info.parser is None
        and not getattr(parameter, "count", False)
    ]
    assert strangers == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion_is_shown_and_completes_commands(shell: str) -> None:
    """In a process of its own, because completion is switched on when the command line is imported."""
    shown = subprocess.run(
        [sys.executable, "-m", "ptq", "--show-completion", shell],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "_PTQ_COMPLETE" in shown.stdout
    assert "ptq" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["plan", "diff", "a", "b"], "no such command 'plan'; plans are JSON texts: compare them"),
    ],
)  # fmt: skip
def test_what_does_not_exist_is_refused_with_what_does(ptq, arguments, line):
    result = ptq(*arguments)
    assert result.code == 2
    assert result.line.startswith(f"error: {line}")


def test_a_mean_of_several_values_for_gray_images_says_how_many_it_takes():
    spec = InputSpec("x", np.dtype("f4"), (1, 1, 8, 8))
    with pytest.raises(UsageError, match=r"mean has 3 values; GRAY takes 1$"):
        Preprocess(mean=(0.1, 0.2, 0.3)).resolved(spec)
    with pytest.raises(UsageError, match=r"std has 2 values; give 1 or 3$"):
        Preprocess(std=(0.1, 0.2)).resolved(InputSpec("x", np.dtype("f4"), (1, 3, 8, 8)))
