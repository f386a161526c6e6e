"""What the logger ``ptq`` logs. The sentences of the report, which are logged too, are the oracle."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from jobs import FEW, MODEL

import ptq


def test_stages_and_decisions_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "ptq")
    result = ptq.quantize(MODEL, FEW, threads=1, skip="Gemm")
    lines = [r.getMessage() for r in caplog.records if r.name == "ptq" and r.levelname == "INFO"]
    assert set(result.report.changes) <= set(lines)
    assert len(set(result.report.changes)) > 2
    for stage, steps in (("measuring channels", 24), ("rounding", 24), ("evaluating", 24)):
        start = lines.index(f"{stage}: started ({steps} steps)")
        assert any(line.startswith(f"{stage}: done ({steps} steps, ") for line in lines[start:])
    starts = [line.partition(":")[0] for line in lines if ": started" in line]
    ends = [line.partition(":")[0] for line in lines if ": done" in line]
    assert sorted(starts) == sorted(ends)
    assert {"choosing ranges", "checking", "comparing candidates"} <= set(starts)
    [(name, reason)] = result.plan.floats.items()
    assert f"float: 1 node: {reason}" in lines
    assert f"float: {name}: {reason}" in caplog.messages


def test_a_sample_has_no_line_of_its_own_at_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ptq")
    ptq.calibrate(MODEL, FEW, threads=1)
    assert len([r for r in caplog.records if r.name == "ptq"]) == 2
    caplog.clear()
    caplog.set_level(logging.DEBUG, "ptq")
    ptq.calibrate(MODEL, FEW, threads=1)
    assert caplog.messages.count("calibrating: step 24") == 1


def test_no_line_holds_a_path_of_the_model_or_the_data(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    folder = tmp_path / "token=hidden"
    folder.mkdir()
    onnx.save(MODEL, folder / "model.onnx")
    np.savez(folder / "data.npz", **FEW)
    caplog.set_level(logging.DEBUG, "ptq")
    ptq.quantize(folder / "model.onnx", folder / "data.npz", threads=1, equalize=False)
    lines = [r.getMessage() for r in caplog.records if r.name == "ptq"]
    assert lines
    assert [line for line in lines if "hidden" in line] == []


def test_the_library_prints_nothing_without_a_handler() -> None:
    code = "import logging, ptq; logging.getLogger('ptq').error('lost')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")
