"""The report as a page; an HTML parser is the oracle."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import onnx
import pytest
from networks import build_network

import ptq as ptq_package

VOID = {"meta", "input", "img"}


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.linked: list[str] = []
        self.names: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.linked += [value or "" for name, value in attrs if name in ("src", "href")]
        self.names += [value or "" for name, value in attrs if name == "id"]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ("path", "rect", "circle", "polyline"), tag

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def assert_whole(self) -> None:
        """All elements end; nothing outside is loaded; every link leads to an element of the page."""
        assert self.open == []
        assert [link for link in self.linked if not link.startswith(("#", "data:image/"))] == []
        assert len(self.names) == len(set(self.names))
        targets = {unquote(link[1:]) for link in self.linked if link.startswith("#")}
        assert targets - set(self.names) == set()


def test_the_page_is_whole_and_names_every_node_and_tensor(ptq, model: Path, data: Path) -> None:
    done = ptq(
        "quantize", model, "--data", data, "-o", "q.onnx", "--report", "r.html", "--json", "r.json"
    )
    assert done.code == 0, done.err
    page = _Page()
    page.feed(Path("r.html").read_text(encoding="utf-8"))
    page.close()
    page.assert_whole()
    report = json.loads(Path("r.json").read_text(encoding="utf-8"))
    for row in (*report["nodes"], *report["tensors"]):
        assert row["name"] in page.text


def test_the_page_of_a_ranking_names_every_node_that_rounds(ptq, model: Path, data: Path) -> None:
    done = ptq(
        "sensitivity", model, "--data", data, "--measure", 1, "--report", "s.html",
        "--json", "s.json",
    )  # fmt: skip
    assert done.code == 0, done.err
    page = _Page()
    page.feed(Path("s.html").read_text(encoding="utf-8"))
    page.close()
    page.assert_whole()
    ranked = json.loads(Path("s.json").read_text(encoding="utf-8"))["nodes"]
    assert ranked[0]["measured_db"] is not None
    for cost in ranked:
        assert cost["node"] in page.text
        assert cost["rounds"] in page.text
    assert f"{ranked[0]['measured_db']:+.1f}" in page.text


def assert_nothing_missing(printed: str, page: Path) -> None:
    """Every word and number that the terminal prints, before the line on what was written, is in the page."""
    parsed = _Page()
    parsed.feed(page.read_text(encoding="utf-8"))
    shown = _words(" ".join(parsed.text))
    assert _words(printed) - shown == set()


def _words(text: str) -> set[str]:
    return {
        word.strip("()[],.:;→").lower()
        for word in re.sub("[─▁-█]|; -v shows all", " ", text).split()
    }


@pytest.mark.parametrize(
    "further", [(), ("--max-drop", 0.5), ("--skip", "conv", "--effort", "fast")]
)
def test_nothing_that_the_terminal_says_of_a_quantization_is_missing_from_its_page(
    ptq, model: Path, data: Path, monkeypatch: pytest.MonkeyPatch, further: tuple[object, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    done = ptq("quantize", model, "--data", data, "--report", "r.html", *further)
    assert done.code == 0, done.err
    assert_nothing_missing(done.out, Path("r.html"))


@pytest.mark.parametrize(
    "command",
    [
        ("sensitivity", "{model}", "--measure", 1),
        ("evaluate", "q.onnx", "--against", "{model}", "--max-drop", 1),
        ("evaluate", "q.onnx", "--engine", "integer"),
        ("compare", "{model}", "q.onnx"),
        ("verify", "q.onnx"),
        ("verify", "q.onnx", "--no-optimizations", "--arithmetic", "fixed-point"),
        ("frontier", "{model}", "--effort", "fast"),
    ],
    ids=lambda command: " ".join(map(str, command)),
)
def test_nothing_that_the_terminal_says_of_another_result_is_missing_from_its_page(
    ptq, model: Path, data: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[object, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    made = ptq("quantize", model, "--data", data, "--effort", "fast", "-o", "q.onnx")
    assert made.code == 0, made.err
    given = [model if part == "{model}" else part for part in command]
    done = ptq(*given, "--data", data, "--report", "p.html")
    assert done.code in (0, 1), done.err
    page = _Page()
    page.feed(Path("p.html").read_text(encoding="utf-8"))
    page.close()
    page.assert_whole()
    assert_nothing_missing(done.out, Path("p.html"))


def test_names_of_a_model_are_text_in_the_page_and_never_markup(
    ptq, model: Path, data: Path
) -> None:
    changed = onnx.load(model)
    evil = "</script><img src=x onerror=alert(1)>\"'&\x01\u202e"
    for node in changed.graph.node:
        node.name = evil + node.name
        for names in (node.input, node.output):
            for index, name in enumerate(names):
                names[index] = f"{evil}{name}" if name in ("c", "r", "g") else name
    onnx.save(changed, "evil.onnx")
    done = ptq("quantize", "evil.onnx", "--data", data, "--report", "r.html", "--effort", "fast")
    assert done.code == 0, done.err
    text = Path("r.html").read_text(encoding="utf-8")
    assert "<img src=x" not in text
    assert text.count("</script>") == 1
    assert "\x01" not in text
    page = _Page()
    page.feed(text)
    page.close()
    page.assert_whole()
    assert any("</script><img src=x onerror=alert(1)>" in part for part in page.text)


def test_the_page_of_300_nodes_stays_below_5_megabytes(tmp_path: Path) -> None:
    width, layers, rng = 8, 150, np.random.default_rng(0)
    text = "\n".join(
        f"a{k} = MatMul({'x' if k == 0 else f'h{k - 1}'}, w{k})\n h{k} = Relu(a{k})"
        for k in range(layers)
    )
    weights = {
        f"w{k}": rng.normal(size=(width, width)).astype(np.float32) / 2 for k in range(layers)
    }
    network = build_network(text, {"x": ("N", width)}, [f"h{layers - 1}"], **weights)
    rows = rng.normal(size=(20, width)).astype(np.float32)
    result = ptq_package.quantize(network, rows, effort="fast", method="minmax", threads=1)
    assert len(result.report.nodes) >= 300
    page = result.to_html()
    assert page.count('class="bars"') >= 100
    assert len(page.encode()) < 5_000_000
