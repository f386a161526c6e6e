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


HEADERS = {
    "a surer column beside one of classes": ("t.csv", "path,text,label\none.png,hello,3\ntwo.png,you,4\n"),
    "any other column of two": ("t.csv", "file,utterance\none.png,hello\ntwo.png,you\n"),
    "a column of stems without a known title": ("t.csv", "id,text,speaker\none,hello,s1\ntwo,you,s2\n"),
    "two titles of paths": ("t.csv", "name,path,text\nann,one.png,hello\nbob,two.png,you\n"),
    "quotes without a header": ("t.csv", '"one.png","hello"\n"two.png","you"\n'),
    "quotes around texts alone": ("t.csv", 'one.png,"hello"\ntwo.png,"you"\n'),
    "quotes between tabs": ("t.tsv", '"path"\t"text"\n"one.png"\t"hello"\n"two.png"\t"you"\n'),
    "stems of some samples": ("t.txt", "one hello\ntwo you\n"),
}  # fmt: skip


@pytest.mark.parametrize("way", HEADERS)
def test_other_columns_and_quotes_are_no_part_of_a_text(tmp_path: Path, way: str) -> None:
    name, content = HEADERS[way]
    (tmp_path / name).write_text(content)
    assert read_text_labels(tmp_path / name, NAMES) == {"a/one.png": "hello", "a/two.png": "you"}


def test_a_quote_between_tabs_swallows_no_lines(tmp_path: Path) -> None:
    rows = ['one.png\t"Stop', 'two.png\t"No", he said', 'three.png\t"say ""hi"""']
    (tmp_path / "t.tsv").write_text("\n".join(["path\tsentence", *rows]))
    found = read_text_labels(tmp_path / "t.tsv", NAMES)
    assert list(found.values()) == ['"Stop', '"No", he said', 'say "hi"']


@pytest.mark.parametrize(
    "texts",
    [
        ["3 pears", "hello", "fig", "nuts"],  # one starts like a name
        ["3 pears", "3 figs", "3 nuts", "2 apples"],  # all do, but not like distinct ones
        ["a\u2028b", "c\x0cd", "e\x85f", "g"],  # only a line feed ends a line
        ["name", "text", "label", "path"],
    ],
)
@pytest.mark.parametrize("file", ["t.txt", "t.csv"])
def test_texts_in_order_keep_their_words_and_their_order(
    tmp_path: Path, texts: list[str], file: str
) -> None:
    names = [f"{k}.png" for k in range(4)]
    (tmp_path / file).write_text("\n".join(texts), "utf-8")
    assert read_text_labels(tmp_path / file, names) == dict(zip(names, texts, strict=True))


MISTAKES = {
    "no line names a sample, and it has 2 lines for 3 samples": ("t.txt", "x\ny\n"),
    "no text belongs to a sample, for example 'a/one.png'": ("t.csv", "path,text\nz.png,1\n"),
    "line 3: sample 'one.png' is listed twice": ("t.csv", "path,text\na/one.png,1\none.png,2\n"),
    "columns 'text' and 'transcript' may hold the texts; remove one": (
        "t.csv",
        "path,text,transcript\none.png,1,2\n",
    ),
    "none of the columns 'path', 'spoken', 'speaker' is known to hold the texts; call it text": (
        "t.csv",
        "path,spoken,speaker\none.png,1,2\n",
    ),
    "columns 'name' and 'path' name samples; call one of them path": (
        "t.csv",
        "name,path,text\none,one.png,1\n",
    ),
    "line 2: has 3 cells, the header 2; if a text holds the separator": (
        "t.csv",
        "path,text\none.png,Hello, world\n",
    ),
    "line 2: a quote is not closed, or text follows it": (
        "t.csv",
        'path,text\none.png,"Hello\ntwo.png,you"\n',
    ),
    "only 2 of 3 lines begin with a sample, so names and texts cannot be separated": (
        "t.txt",
        "one of us\ntwo of us\nnothing\n",
    ),
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


def test_names_may_have_blanks(tmp_path: Path) -> None:
    file = tmp_path / "texts.txt"
    file.write_text("a b.png HELLO all\nc d.png BYE")
    expected = {"a b.png": "HELLO all", "c d.png": "BYE"}
    assert read_text_labels(file, ["a b.png", "c d.png"]) == expected


def test_lines_of_other_samples_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "84.trans.txt"
    file.write_text("84-1 HELLO\n84-2 B\n84-3 X\n84-4 Y")
    names = ["84-1.wav", "84-2.wav", "85-1.wav"]
    assert read_text_labels(file, names) == {"84-1.wav": "HELLO", "84-2.wav": "B"}
    file.write_text("84-1 HELLO\nso\nit\ngoes")
    with pytest.raises(DataError, match="only 1 of 4 lines begin with a sample"):
        read_text_labels(file, names)
