"""Without the extra ``page``: every command works, and the page says in one line what its picture needs."""

from __future__ import annotations

import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest
from ptq_cli.main import app
from typer.main import get_command

BLOCKED = "import sys; sys.modules['fast_sugiyama'] = None; "
ADVICE = (
    "No picture of the graph: the package fast-sugiyama is not installed. Install it with:\n"
    '<code>python -m pip install "fast-sugiyama>=0.5"</code>'
)
COMMANDS = {
    "quantize": ("{model}", "--data", "{data}", "--effort", "fast", "--report", "p.html"),
    "calibrate": ("{model}", "--data", "{data}", "-o", "s.npz"),
    "evaluate": ("q.onnx", "--data", "{data}", "--against", "{model}", "--report", "p.html"),
    "compare": ("{model}", "q.onnx", "--data", "{data}", "--report", "p.html"),
    "benchmark": ("q.onnx", "--seconds", "0.1"),
    "verify": ("q.onnx", "--data", "{data}", "--report", "p.html"),
    "sensitivity": ("{model}", "--data", "{data}", "--measure", "1", "--report", "p.html"),
    "frontier": ("{model}", "--data", "{data}", "--effort", "fast", "--report", "p.html"),
    "inspect": ("{model}",),
    "convert": ("q.onnx", "--format", "qoperator", "-o", "o.onnx"),
    "lint": ("q.onnx", "--target", "litert"),
    "ops": (),
    "tune": ("{model}", "--threads", "1"),
    "init": (),
}


@pytest.fixture
def without_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package cannot be imported."""
    monkeypatch.setitem(sys.modules, "fast_sugiyama", None)


def test_ptq_and_its_command_line_are_imported_without_it() -> None:
    program = BLOCKED + "import ptq; from ptq_cli.main import main; print(ptq.__version__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.strip()


def test_every_command_is_in_the_table() -> None:
    runs_quantize, prints_a_page = "demo", "explain"
    assert [*COMMANDS, runs_quantize, prints_a_page] == list(getattr(get_command(app), "commands"))  # noqa: B009 # untyped


@pytest.mark.usefixtures("without_layout")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_works_without_it(ptq, model: Path, data: Path, command: str) -> None:
    made = ptq(
        "quantize", model, "--data", data, "--effort", "fast", "--target", "litert", "-o", "q.onnx"
    )
    assert made.code == 0, made.err
    places = {"{model}": model, "{data}": data}
    given = [places.get(part, part) for part in COMMANDS[command]]
    done = ptq(command, *given)
    assert done.code == 0, done.err
    assert ("--report" in given) == Path("p.html").is_file()


@pytest.mark.usefixtures("without_layout")
def test_without_it_the_page_says_what_to_install_and_has_no_picture(
    ptq, model: Path, data: Path
) -> None:
    done = ptq("quantize", model, "--data", data, "--effort", "fast", "--report", "p.html")
    assert done.code == 0, done.err
    page = Path("p.html").read_text(encoding="utf-8")
    assert unescape(page).count(ADVICE) == 1
    assert "data-node=" not in page
    assert 'name="colouring"' not in page
    for node in ("conv", "relu", "pool", "flatten", "head"):
        assert f"<h3>{node}</h3>" in page


def test_with_it_the_page_has_a_picture_and_no_advice(ptq, model: Path, data: Path) -> None:
    pytest.importorskip("fast_sugiyama", reason="fast-sugiyama is an extra: page")
    done = ptq("quantize", model, "--data", data, "--effort", "fast", "--report", "p.html")
    assert done.code == 0, done.err
    page = Path("p.html").read_text(encoding="utf-8")
    assert ADVICE not in unescape(page)
    assert page.count("data-node=") == 5
