"""The characters of classes: each form of a list gives the text of each class."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptq.core.errors import DataError
from ptq.data.labels.alphabet import complete_alphabet, read_alphabet


def test_each_line_is_a_character_and_only_line_feeds_end_one(tmp_path: Path) -> None:
    (tmp_path / "dict.txt").write_bytes("a\r\nb\n \n\u2028\n\n".encode())
    assert read_alphabet(tmp_path / "dict.txt") == ("a", "b", " ", "\u2028")


@pytest.mark.parametrize(
    "content", ['{"<pad>": 0, "|": 1, "▁the": 3}', '["<pad>", "|", "", "▁the"]']
)
def test_a_vocabulary_in_json_gives_classes_by_number(tmp_path: Path, content: str) -> None:
    (tmp_path / "vocab.json").write_text(content, "utf-8")
    assert read_alphabet(tmp_path / "vocab.json") == ("<pad>", " ", "", " the")


@pytest.mark.parametrize(
    ("classes", "blank", "expected"),
    [
        (4, 0, ("", "a", "b", " ")),  # as PaddleOCR: the space is not listed either
        (3, 0, ("", "a", "b")),
        (3, 2, ("a", "b", "")),
        (4, 3, ("a", "b", " ", "")),
        (2, 1, ("a", "")),  # the blank is listed
        (9, 0, ()),
        (1, 0, ()),
    ],
)
def test_the_blank_and_the_space_may_be_left_out(
    classes: int, blank: int, expected: tuple[str, ...]
) -> None:
    assert complete_alphabet(("a", "b"), classes, blank) == expected


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.json", "{", "is not JSON"),
        ("v.json", '{"a": "b"}', "neither a list of texts nor an object of class numbers"),
        ("v.json", '{"a": -1}', "neither a list of texts nor an object of class numbers"),
        ("v.json", '{"a": 99999999}', "neither a list of texts nor an object of class numbers"),
        ("d.txt", "\n", "lists no character"),
        ("d.txt", "\udcff", "not a text in UTF-8"),
    ],
)
def test_a_damaged_list_is_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(DataError, match=message):
        read_alphabet(tmp_path / name)
