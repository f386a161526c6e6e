"""``ptq explain``: every message that names a section has it, and every section is named by a message."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import get_args

import numpy as np
import onnx
import pytest
from command_line import FAST, call, say
from networks import build_network, gaussian_array
from parts import CONV, WB
from ptq_cli.commands.explain import read_sections

import ptq
from ptq.core import errors
from ptq.core.topics import Topic, name_command

ROOT = Path(__file__).resolve().parents[2]
TOPICS = get_args(Topic)
NAMED = re.compile(r"ptq explain ((?:[a-z][a-z-]+ ?)+)")


def _strings(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}  # type: ignore[misc]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a small network and its samples."""
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.chdir(tmp_path)
    network = build_network(
        CONV + "y = Relu(c)", {"x": ("n", 3, 8, 8)}, m=gaussian_array(2, 2), **WB
    )
    onnx.save(network, "m.onnx")
    np.savez("x.npz", x=np.random.default_rng(0).normal(size=(60, 3, 8, 8)).astype(np.float32))
    return tmp_path


def test_the_topics_are_the_sections_of_the_page_in_order():
    title, sections = read_sections()
    assert tuple(sections) == TOPICS
    assert title == "Troubleshooting, by symptom"


@pytest.mark.parametrize("topic", TOPICS)
def test_every_section_is_named_by_a_message(topic):
    sources = [*(ROOT / "ptq").rglob("*.py"), *(ROOT / "cli").rglob("*.py")]
    places = [p.name for p in sources if p.name != "topics.py" and topic in _strings(p)]
    if topic == "accuracy-collapsed":
        places.append("diagnosis.py")
    assert places


@pytest.mark.parametrize("topic", TOPICS)
def test_a_section_is_printed_without_links_that_lead_nowhere(topic):
    printed = say("explain", topic)
    assert printed.startswith("## ")
    assert "](" not in printed
    for found in re.findall(r"docs/(\w+\.md)", printed):
        assert (ROOT / "docs" / found).is_file()
    for named in re.findall(r"\(ptq explain ([a-z-]+)\)", printed):
        assert named in TOPICS


def test_the_first_words_of_a_topic_are_enough_and_several_are_printed():
    printed = say("explain", "slower", "not-four")
    assert "## Slower than float" in printed
    assert "## Not four times smaller" in printed


def test_without_a_topic_all_are_listed():
    assert [t for t in TOPICS if f"- `{t}`" not in say("explain")] == []


def test_an_unknown_topic_is_one_line_with_those_that_exist():
    code, printed = call("explain", "faster")
    assert (code, printed.count("\n")) == (2, 1)
    assert "slower-than-float" in printed


def test_a_report_names_the_sections_that_its_figures_lead_to(folder):
    printed = say("quantize", "m.onnx", "--data", "x.npz", "--force", "--report", "r.html", *FAST)
    [line] = re.findall(r"Questions: (.*)$", printed, re.MULTILINE)
    assert line.startswith(name_command())
    assert "not-four-times-smaller" in line
    assert line in (folder / "r.html").read_text(encoding="utf-8")
    for names in NAMED.findall(printed):
        assert set(names.split()) <= set(TOPICS)


def test_a_warning_names_its_section(folder):
    np.savez("few.npz", x=np.load("x.npz")["x"][:3])
    printed = say("quantize", "m.onnx", "--data", "few.npz", "--force", *FAST)
    assert re.search(
        r"ranges are chosen on only 3 samples.*\(ptq explain accuracy-collapsed\)",
        " ".join(printed.split()),
    )


@pytest.mark.parametrize(
    ("error", "topic"),
    [
        (errors.DataError, "refused-data"),
        (errors.StatsError, "refused-data"),
        (errors.PlanError, "refused-data"),
        (errors.NoGainError, "slower-than-float"),
        (errors.ModelError, None),
    ],
)
def test_an_error_knows_its_section(error, topic):
    assert error("message").topic == topic


def test_a_refusal_names_its_section_on_its_line(folder):
    np.savez("bad.npz", x=np.full((4, 3, 8, 8), np.nan, np.float32))
    code, printed = call("quantize", "m.onnx", "--data", "bad.npz")
    assert (code, printed.count("\n")) == (1, 1)
    assert printed.endswith(" (ptq explain refused-data)\n")


def test_python_messages_name_no_command(folder):
    np.savez("bad.npz", x=np.full((4, 3, 8, 8), np.nan, np.float32))
    with pytest.raises(ptq.DataError) as caught:
        ptq.quantize("m.onnx", "bad.npz")
    assert "ptq explain" not in str(caught.value)
