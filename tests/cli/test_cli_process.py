"""The command as a process: start-up, terminals, pipes and signals."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SLOW = """
import pathlib, time
import numpy as np

def samples():
    for index in range(1000):
        yield {"x": np.zeros((1, 3, 8, 8), np.float32)}
        pathlib.Path("begun").touch()
        time.sleep(0.1)
"""
HEAVY = ("numpy", "onnx", "onnx_ir", "onnxruntime", "scipy", "PIL")
FAST = ("--effort", "fast", "--threads", "1")
PATIENCE = 60  # seconds until a process that should have begun is given up


def _environment() -> dict[str, str]:
    return {**os.environ, "COLUMNS": "80", "PYTHONWARNINGS": "error"}


def _ptq(*arguments: object, **how: object) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "ptq_cli", *map(str, arguments)]
    return subprocess.run(command, env=_environment(), capture_output=True, check=False, **how)


def test_help_imports_nothing_heavy():
    code = (
        "import sys\n"
        "from ptq_cli.main import app\n"
        "from ptq_cli.process import run\n"
        "assert run(app, ['quantize', '--help']) == 0\n"
        f"print(*(m for m in {HEAVY!r} if m in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stderr.strip() == ""
    assert "--data" in done.stdout


def test_importing_ptq_loads_no_part_of_scipy():
    code = "import sys, ptq; print(*{'scipy.sparse', 'scipy.special'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("module", ["ptq", "ptq_cli"])
def test_the_module_is_the_command(module):
    command = [sys.executable, "-m", module, "--version"]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    assert done.stdout.startswith("ptq ")


def test_the_exit_codes_of_the_process_are_those_of_the_design(model):
    assert _ptq("inspect", model).returncode == 0
    assert _ptq("inspect", "absent.onnx").returncode == 1
    assert _ptq("quantise").returncode == 2


def _read_to_the_end(reader):
    """What a terminal is shown, read as it comes: it holds little, and who writes more waits."""
    while True:
        try:
            yield os.read(reader, 1 << 16)
        except OSError:  # nobody has the other end any more
            return


@pytest.mark.parametrize(
    ("verb", "options", "stages"),
    [
        ("quantize", FAST, [b"calibrating", b"checking", b"evaluating"]),
        (
            "sensitivity",
            ("--no-equalize", "--threads", "1"),
            [b"calibrating", b"attributing the error", b"measuring"],
        ),
    ],
)
def test_a_terminal_is_shown_progress_on_standard_error(model, data, verb, options, stages):
    reader, writer = pty.openpty()
    command = [sys.executable, "-m", "ptq_cli", verb, str(model), "--data", str(data), *options]
    environment = {**_environment(), "TERM": "xterm"}
    with open("report", "wb") as report:
        process = subprocess.Popen(command, env=environment, stdout=report, stderr=writer)
    os.close(writer)
    shown = b"".join(_read_to_the_end(reader))
    os.close(reader)
    assert process.wait() == 0
    assert [stage for stage in stages if stage not in shown] == []
    assert [stage for stage in stages if stage in Path("report").read_bytes()] == []


@pytest.mark.parametrize(
    "setting", [{"TERM": "dumb", "NO_COLOR": "1"}, {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}]
)
def test_the_report_is_readable_on_poor_terminals(model, data, setting):
    given = ["quantize", str(model), "--data", str(data), *FAST]
    command = [sys.executable, "-m", "ptq_cli", *given]
    environment = {**_environment(), **setting}
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"int8 in ONNX Runtime" in done.stdout
    assert b"\x1b" not in done.stdout
    *lines, last = done.stdout.decode().splitlines()
    assert max(len(line) for line in lines) <= 80
    assert last.startswith("Written: ")  # one line, so that its command can be copied


def test_a_reader_that_stops_reading_is_no_error(model):
    command = [sys.executable, "-m", "ptq_cli", "ops"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    process.wait()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_process_and_leaves_nothing_behind(model, number, code):
    Path("slow.py").write_text(SLOW)
    command = [sys.executable, "-m", "ptq_cli", "quantize", str(model), "--data", "slow:samples"]
    process = subprocess.Popen(
        [*command, "--json", "report.json"],
        env={**_environment(), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + PATIENCE
    while not Path("begun").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(number)
    out, err = process.communicate()
    assert process.returncode == code
    assert out == b""
    assert b"Traceback" not in err
    assert sorted(p.name for p in Path().iterdir()) == ["begun", "slow.py"]
