"""A signal ends the process whatever it meets on the way; the exit code and the output are the oracle."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SELF = "os.kill(os.getpid(), signal.{number})"
RUN = """
import os, pathlib, signal, sys, time
import typer
from ptq_cli.process import prepare_process, run

app = typer.Typer()

@app.command()
def command() -> None:
{body}

prepare_process()
sys.exit(run(app, []))
"""
EXTENSION = """
import os, signal, time
try:
    {itself}
    for _ in range(20): time.sleep(0.01)
except BaseException as error:
    raise ImportError("initialization failed") from error
"""
IMPORTING = """
    try:
        import extension
    except ImportError:
        print("taken for missing")
    for _ in range(600): time.sleep(0.01)
    print("never ended")
"""
DESTROYING = """
    class Dying:
        def __del__(self) -> None:
            {itself}
            for _ in range(20): time.sleep(0.01)
    Dying()
    for _ in range(600): time.sleep(0.01)
    print("never ended")
"""
CLEANING = """
    try:
        {itself}
        time.sleep(6)
    finally:
        {itself}
        for _ in range(30): time.sleep(0.01)
        try:
            raise ValueError
        except ValueError:
            for _ in range(30): time.sleep(0.01)
        print("cleaned")
"""
CONVERTED = """
    try:
        {itself}
        time.sleep(6)
    except BaseException:
        raise RuntimeError("of a library")
"""
ENDING = """
    import atexit
    atexit.register(lambda: ({itself}, time.sleep(0.3)))
"""
SIGNALS = pytest.mark.parametrize(("number", "code"), [("SIGINT", 130), ("SIGTERM", 143)])


def _ended(folder: Path, body: str, number: str) -> subprocess.CompletedProcess[str]:
    itself = SELF.format(number=number)
    (folder / "extension.py").write_text(EXTENSION.format(itself=itself))
    (folder / "script.py").write_text(RUN.format(body=body.format(itself=itself)))
    command = [sys.executable, str(folder / "script.py")]
    return subprocess.run(command, capture_output=True, check=False, text=True, cwd=folder)


@SIGNALS
@pytest.mark.parametrize(
    ("body", "out"),
    [(IMPORTING, ""), (DESTROYING, ""), (CLEANING, "cleaned\n"), (CONVERTED, "")],
    ids=["import", "destructor", "cleaning up", "converted"],
)
def test_a_signal_ends_the_process_whatever_it_meets(
    tmp_path: Path, body: str, out: str, number: str, code: int
) -> None:
    done = _ended(tmp_path, body, number)
    assert done.returncode == code, done.stderr
    assert done.stdout == out
    assert done.stderr.endswith("interrupted\n" if code == 130 else "")
    assert "error: " not in done.stderr


def test_a_signal_that_the_caller_ignores_stays_ignored(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        RUN.format(body=f"    {SELF.format(number='SIGINT')}\n    print('on')")
    )
    command = ["sh", "-c", f"trap '' INT; exec {sys.executable} {tmp_path / 'script.py'}"]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert (done.returncode, done.stdout) == (0, "on\n")


@pytest.mark.parametrize(("number", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_after_the_work_ends_the_process_at_once(
    tmp_path: Path, number: str, code: int
) -> None:
    done = _ended(tmp_path, ENDING, number)
    assert (done.returncode, done.stderr) == (code, "interrupted\n" if code == 130 else "")


@pytest.mark.parametrize(("number", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_while_the_command_line_loads_ends_it_at_once(
    tmp_path: Path, number: str, code: int
) -> None:
    """The first module that it loads is replaced by one that sends the signal."""
    (tmp_path / "typer.py").write_text(f"import os, signal\n{SELF.format(number=number)}\n")
    done = subprocess.run(
        [sys.executable, "-m", "ptq_cli", "--version"],
        capture_output=True, check=False, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (code, "interrupted\n" if code == 130 else "")
