"""Labels of texts: every way to write them gives the same texts, and mistakes are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptq.core.errors import DataError
from ptq.data.labels.text_labels import read_text_labels

NAMES = ["a/one.png", "a/two.png", "b/three.png"]
TEXTS = {"a/one.png": "Hello, world", "a/two.png": "2 x 3", "b/three.png": "naïve"}

WAYS = {
    "a table": ("t.csv", 'path,text\na/one.png,"Hello, world"\na/two.png,2 x 3\nb/three.png,naïve\n'),
    "a table with tabs and more columns": (
        "t.tsv",
        "id\tfile_name\tTranscription\n1\ta/one.png\tHello, world\n2\ta/two.png\t2 x 3\n3\tb/three.png\tnaïve\n",
    ),
    "file names alone": ("t.csv", 'image,label\none.png,"Hello, world"\ntwo.png,2 x 3\nthree.png,naïve'),
    "lines with tabs": ("t.txt", "data/a/one.png\tHello, world\ndata/a/two.png\t2 x 3\nb/three.png\tnaïve\n"),
    "lines with blanks, without endings": ("t.txt", "one Hello, world\ntwo 2 x 3\nthree naïve\n"),
    "one text a line": ("t.txt", "Hello, world\n 2 x 3\nnaïve\n\n"),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_each_way_gives_the_same_texts(tmp_path: Path, way: str) -> None:
    name, content = WAYS[way]
    (tmp_path / name).write_text(content, "utf-8")
    assert read_text_labels(tmp_path / name, NAMES) == TEXTS


def test_other_samples_of_a_file_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("zero\tno\na/two.png\tyes\nlast\tno\nmore\tno\n")
    assert read_text_labels(tmp_path / "t.txt", NAMES) == {"a/two.png": "yes"}


def test_texts_in_order_may_start_like_a_name(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("one of us\nnobody\nnothing\n")
    found = read_text_labels(tmp_path / "t.txt", NAMES)
    assert list(found.values()) == ["one of us", "nobody", "nothing"]


def test_a_name_that_two_samples_share_is_not_guessed(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("path,text\nx.png,1\nb/x.png,2\n")
    assert read_text_labels(tmp_path / "t.csv", ["a/x.png", "b/x.png"]) == {"b/x.png": "2"}


MISTAKES = {
    "no line names a sample, and it has 2 lines for 3 samples": ("t.txt", "x\ny\n"),
    "no text belongs to a sample, for example 'a/one.png'": ("t.csv", "path,text\nz.png,1\n"),
    "line 3: sample 'one.png' is listed twice": ("t.csv", "path,text\na/one.png,1\none.png,2\n"),
    "line 3: has 1 cell only": ("t.csv", "path,text\na/one.png,1\na/two.png\n"),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_a_mistake_is_named(tmp_path: Path, message: str) -> None:
    name, content = MISTAKES[message]
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        read_text_labels(tmp_path / name, NAMES)


def test_a_file_that_is_absent_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        DataError,
        match=r"absent\.csv: cannot be read \(No such file or directory\); give a text file",
    ):
        read_text_labels(tmp_path / "absent.csv", NAMES)
