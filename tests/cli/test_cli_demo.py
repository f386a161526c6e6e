"""``ptq demo``: the sample, from a checkout and from an installed wheel."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path

import onnx
import pytest
from ptq_cli import package_files
from ptq_cli.commands import demo

ROOT = Path(__file__).resolve().parents[2]


def test_the_demo_quantizes_the_sample_and_writes_its_page(ptq, folder: Path) -> None:
    done = ptq("demo", "out")
    assert done.code == 0, done.err
    first, *_, last = done.out.splitlines()
    command = shlex.split(first.removeprefix("$ "))
    assert command[:2] == ["ptq", "quantize"]
    assert last.startswith("Page: out")
    assert "top-1 accuracy: no significant change" in done.out
    onnx.checker.check_model(onnx.load("out/demo.int8.onnx"))
    page = Path("out/demo.html").read_text(encoding="utf-8")
    assert "Accuracy by class" in page
    assert "data:image/png;base64," in page


@pytest.mark.parametrize("place", ["a_file", "a_file/below", "x" * 300])
def test_a_folder_that_cannot_be_made_is_one_line(ptq, folder: Path, place: str) -> None:
    Path("a_file").touch()
    done = ptq("demo", place)
    assert done.code == 2
    assert done.line.startswith(f"error: {place}: cannot be made (")
    assert done.line.endswith("); give a folder")


def test_an_installed_sample_is_taken_before_that_of_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fashion_mobilenet.onnx").write_bytes(b"")
    monkeypatch.setattr(
        package_files.resources, "files", {demo.SAMPLE_PACKAGE: tmp_path}.__getitem__
    )
    assert demo._find_sample() == tmp_path


def test_without_the_sample_one_line_says_what_to_do(ptq, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_MODEL", "absent.onnx")
    done = ptq("demo")
    assert done.code == 2
    assert done.line.startswith(
        "error: the sample data are not installed; run ptq demo in a checkout"
    )


def test_the_wheel_holds_what_the_demo_reads() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "setuptools"
    ]
    folder = ROOT / settings["package-dir"][demo.SAMPLE_PACKAGE]
    packed = {
        path
        for pattern in settings["package-data"][demo.SAMPLE_PACKAGE]
        for path in folder.glob(pattern)
    }
    assert folder / "fashion_mobilenet.onnx" in packed
    assert packed >= set((folder / "images").rglob("*.png"))
    assert folder / "LICENSE-fashion-mnist" in packed
