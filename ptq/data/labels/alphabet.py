"""The characters of a recognizer's classes: from a file, or from the model's metadata.

The file has one character, or one piece of a word, on each line, in the order of the classes (the dictionary of
PaddleOCR); or it is JSON: the number of the class by its text (the vocabulary of wav2vec 2.0), or a list of texts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ptq.core import files
from ptq.core.errors import DataError

METADATA = "character"
"""Key under which exporters of PaddleOCR write the characters, one a line."""
_MAX_CLASSES = 2**24
_BLANKS = ("▁", "|")
"""What vocabularies write for a blank between words."""


def read_alphabet(path: Path) -> tuple[str, ...]:
    """The texts of the classes that a file lists; the class that means nothing may be missing.

    Raises:
        DataError: The file cannot be read, lists nothing, or is not as described above.
    """
    with files.explain_unreadable(path):
        content = path.read_text("utf-8-sig")
    listed = _parse_vocabulary(content, path) if path.suffix.lower() == ".json" else None
    if listed is None:
        listed = split_characters(content)
    if not listed:
        raise DataError(
            f"{path}: lists no character; write one on each line, in the order of the classes"
        )
    return listed


def split_characters(content: str) -> tuple[str, ...]:
    """One character a line; only line feeds end a line, because characters may be other ends of lines."""
    return tuple(line for line in (line.rstrip("\r") for line in content.split("\n")) if line)


def _parse_vocabulary(content: str, path: Path) -> tuple[str, ...]:
    try:
        document: Any = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: is not JSON: {error}") from error
    if isinstance(document, list) and all(isinstance(text, str) for text in document):
        return tuple(_to_text(text) for text in document)
    if isinstance(document, dict) and all(type(n) is int for n in document.values()):
        numbers = sorted(document.values())
        if numbers and numbers[0] >= 0 and numbers[-1] < _MAX_CLASSES:
            texts = {number: _to_text(text) for text, number in document.items()}
            return tuple(texts.get(number, "") for number in range(numbers[-1] + 1))
    raise DataError(f"{path}: is neither a list of texts nor an object of class numbers by text")


def _to_text(text: str) -> str:
    for blank in _BLANKS:
        text = text.replace(blank, " ")
    return text


def read_metadata_alphabet(metadata: Mapping[str, str]) -> tuple[str, ...]:
    """The characters that the metadata list; empty if they list none."""
    return split_characters(metadata.get(METADATA, ""))


def complete_alphabet(listed: Sequence[str], classes: int, blank: int) -> tuple[str, ...]:
    """The text of each class; empty if the list does not fit.

    A list may leave out the blank class, and the space behind all characters, as PaddleOCR does.

    Args:
        listed: What a file or the metadata list.
        classes: Number of classes of the output.
        blank: The class that means nothing.
    """
    texts = [*listed]
    if len(texts) == classes - 2:
        texts.append(" ")
    if len(texts) == classes - 1:
        texts.insert(blank, "")
    if not listed or len(texts) != classes:
        return ()
    texts[blank] = ""
    return tuple(texts)
