"""Options -v, -vv and -q; the same command without them is the oracle of what is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


def test_quiet_writes_the_same_model_and_prints_nothing(ptq, model, data, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    given = ("quantize", model, "--data", data, "--threads", 1, "--no-equalize")
    assert "::warning " in ptq(*given, "-o", "plain.onnx").err
    Path("quiet.onnx").touch()  # is replaced, which is not reported
    done = ptq(*given, "-o", "quiet.onnx", "-q")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert Path("quiet.onnx").read_bytes() == Path("plain.onnx").read_bytes()


def test_quiet_keeps_json_on_standard_output_and_is_no_option_of_the_result(ptq, model, data):
    done = ptq("evaluate", model, "--data", data, "--json", "-", "--quiet")
    assert done.err == ""
    assert not {"quiet", "verbose"} & json.loads(done.out)["options"].keys()


def test_quiet_keeps_the_error_line(ptq, data):
    done = ptq("calibrate", "absent.onnx", "--data", data, "-o", "stats.npz", "-q")
    assert (done.code, done.out) == (1, "")
    assert done.line.startswith("error: ")


@pytest.mark.parametrize(("option", "steps"), [("-v", 0), ("--verbose", 0), ("-vv", 24)])
def test_verbose_logs_stages_on_standard_error(ptq, model, data, option, steps):
    done = ptq("calibrate", model, "--data", data, "-o", "stats.npz", option)
    assert done.code == 0
    lines = done.err.splitlines()
    assert lines[0] == "info: calibrating: started (24 steps)"
    assert lines[-1].startswith("info: calibrating: done (24 steps, ")
    assert sum(line.startswith("debug: ") for line in lines) == steps
    assert "observed on" in done.out
    assert ptq("calibrate", model, "--data", data, "-o", "other.npz").err == ""


def test_verbose_and_quiet_together_are_refused(ptq, model, data):
    done = ptq("evaluate", model, "--data", data, "-v", "-q")
    assert done.code == 2
    assert "-v and -q contradict each other" in done.line


@pytest.mark.parametrize(
    "command", ["quantize", "calibrate", "evaluate", "compare", "verify", "sensitivity"]
)
def test_every_command_that_runs_models_has_both_options(ptq, command):
    shown = ptq(command, "--help").out
    assert "-v, --verbose" in shown
    assert "-q, --quiet" in shown
