"""The report as a page; an HTML parser is the oracle."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.linked: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.open.append(tag)
        self.linked += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_page_is_whole_and_names_every_node_and_tensor(ptq, model: Path, data: Path) -> None:
    done = ptq(
        "quantize", model, "--data", data, "-o", "q.onnx", "--report", "r.html", "--json", "r.json"
    )
    assert done.code == 0, done.err
    page = _Page()
    page.feed(Path("r.html").read_text(encoding="utf-8"))
    page.close()
    assert page.open == []
    assert page.linked == []
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
    assert (page.open, page.linked) == ([], [])
    ranked = json.loads(Path("s.json").read_text(encoding="utf-8"))["nodes"]
    assert ranked[0]["measured_db"] is not None
    for cost in ranked:
        assert cost["node"] in page.text
        assert cost["rounds"] in page.text
    assert f"{ranked[0]['measured_db']:+.1f}" in page.text
