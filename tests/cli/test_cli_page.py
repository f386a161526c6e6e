"""The report as a page; an HTML parser is the oracle."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import onnx
import pytest
from networks import build_network
from PIL import Image
from ptq_cli.render.runtime import render_runtime_check

import ptq as ptq_package
from ptq.executor.runtimes.runtime import Placement
from ptq.verification.html import render_verification_page
from ptq.verification.runtime_check import RuntimeCheck, RuntimeTensor

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


def _write_recognizer() -> tuple[object, ...]:
    """A recognizer of lines, their images and their texts; the options that name them."""
    rng = np.random.default_rng(0)
    network = build_network(
        "c = Conv<strides=[8,3]>(x, w)\n e = Relu(c)\n d = Conv(e, v)\n s = Squeeze(d, two)\n"
        "y = Transpose<perm=[0,2,1]>(s)",
        {"x": ("N", 1, 8, 72)},
        ["y"],
        w=rng.normal(size=(16, 1, 8, 3)).astype(np.float32),
        v=rng.normal(size=(9, 16, 1, 1)).astype(np.float32),
        two=np.array([2]),
    )
    onnx.save(network, "m.onnx")
    np.savez("lines.npz", x=rng.normal(size=(60, 1, 8, 72)).astype(np.float32))
    Path("texts.txt").write_text("\n".join(["abc", "de f"] * 30))
    Path("alphabet.txt").write_text("\n".join("abcdefg"))
    return ("--data", "lines.npz", "--eval", "lines.npz", "--task", "ctc", "--transcripts", "texts.txt",
            "--alphabet", "alphabet.txt")  # fmt: skip


def _write_detector() -> tuple[object, ...]:
    """A detector of two classes, images and their boxes; the options that name them."""
    rng = np.random.default_rng(0)
    network = build_network(
        "c = Conv<strides=[8,8]>(x, w)\n r = Relu(c)\n d = Conv(r, v)\n f = Reshape(d, shape)\n"
        "b, k = Split<axis=1>(f, parts)\n p = Sigmoid(k)\n a = Abs(b)\n m = Mul(a, pixels)\n"
        "n = Add(m, one)\n y = Concat<axis=1>(n, p)",
        {"x": (1, 3, 64, 64)},
        ["y"],
        w=rng.normal(size=(8, 3, 8, 8)).astype(np.float32),
        v=rng.normal(size=(6, 8, 1, 1)).astype(np.float32) / 8,
        shape=np.array([1, 6, 64]),
        parts=np.array([4, 2]),
        pixels=np.float32(12),
        one=np.float32(1),
    )
    onnx.save(network, "m.onnx")
    for folder in ("images", "labels"):
        Path(folder).mkdir()
    for k in range(30):
        Image.fromarray(rng.integers(0, 256, (64, 64, 3), np.uint8)).save(f"images/{k}.png")
        Path(f"labels/{k}.txt").write_text("0 0.5 0.5 0.3 0.3\n1 0.2 0.2 0.2 0.2\n")
    return ("--data", "images", "--eval", "images", "--boxes", "labels", "--mean", 0, "--std", 1,
            "--task", "detect")  # fmt: skip


@pytest.mark.parametrize("write", [_write_recognizer, _write_detector])
def test_nothing_that_the_terminal_says_of_labelled_texts_and_boxes_is_missing_from_the_page(
    ptq, folder: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[], tuple[object, ...]]
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    given = write()
    done = ptq(
        "quantize",
        "m.onnx",
        *given,
        "--effort",
        "fast",
        "--force",
        "-o",
        "q.onnx",
        "--report",
        "q.html",
    )
    assert done.code == 0, done.err
    assert {"character", "mAP50"} & set(done.out.split())
    assert_nothing_missing(done.out, Path("q.html"))
    data, evaluation = given[:2], given[4:]
    done = ptq("compare", "m.onnx", "q.onnx", *data, *evaluation, "--report", "c.html")
    assert done.code == 0, done.err
    starts = [line.split()[:2] for line in done.out.splitlines() if "(95 % CI" in line]
    assert {"old:", "new:"} <= {words[0] for words in starts}, "each model has figures of its own"
    assert_nothing_missing(done.out, Path("c.html"))


@pytest.mark.parametrize(
    "command",
    [
        ("verify", "q.tflite"),
        ("evaluate", "q.tflite", "--against", "{model}"),
        ("verify", "q.onnx", "--runtime", "litert"),
        ("evaluate", "q.onnx", "--against", "{model}", "--runtime", "litert"),
    ],
    ids=lambda command: " ".join(map(str, command)),
)
def test_nothing_that_the_terminal_says_of_litert_is_missing_from_the_page(
    ptq, model: Path, data: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[object, ...]
) -> None:
    pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")
    monkeypatch.setenv("COLUMNS", "400")
    made = ptq(
        "quantize", model, "--data", data, "--effort", "fast", "--target", "litert", "-o", "q.tflite",
        "--also", "q.onnx", "--report", "r.html",
    )  # fmt: skip
    assert made.code == 0, made.err
    assert_nothing_missing(made.out, Path("r.html"))
    given = [model if part == "{model}" else part for part in command]
    done = ptq(*given, "--data", data, "--report", "p.html")
    assert done.code == 0, done.err
    assert_nothing_missing(done.out, Path("p.html"))


def test_a_tensor_that_diverges_and_nodes_on_the_cpu_are_in_the_page_of_a_verification(
    ptq,
    model: Path,
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    assert ptq("quantize", model, "--data", data, "--effort", "fast", "-o", "q.onnx").code == 0
    check = RuntimeCheck(
        "ort-xnnpack", 24, 20.0,
        (RuntimeTensor("c", "conv", "Conv", 64, 31.5), RuntimeTensor("r", "relu", "Relu", 64, 11.25)),
        (Placement("conv", "Conv", "XNNPACK", True), Placement("relu", "Relu", "CPU", False, "no such kernel")),
    )  # fmt: skip
    verified = ptq_package.verify("q.onnx", data, threads=1)
    page = render_verification_page(replace(verified, runtime_check=check), model="q.onnx")
    Path("p.html").write_text(page, encoding="utf-8")
    capsys.readouterr()
    render_runtime_check(check)
    printed = capsys.readouterr().out
    assert "diverges first at r (Relu relu): 11.2 dB" in printed
    assert "falls back to the CPU" in printed
    assert_nothing_missing(printed, Path("p.html"))


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
