"""Texts as samples: the lines of a .txt file, or the .txt files of a folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ptq.core import files
from ptq.core.errors import DataError
from ptq.data.array_source import ArraySource
from ptq.data.folder import FolderListing
from ptq.data.formats.tokenize_text import TextReader
from ptq.data.input_spec import InputSpec
from ptq.data.labelled_folder import LabelledFolder
from ptq.data.preprocessing.text_preprocess import TextPreprocess
from ptq.data.sample import BadSample, Sample

MAX_TEXT_BYTES = 2**28
"""Largest file of texts."""


class TextFolder(LabelledFolder):
    """The .txt files of a folder; each file is one sample."""

    def __init__(
        self, listing: FolderListing, inputs: Sequence[InputSpec], preprocess: TextPreprocess
    ) -> None:
        """Raise DataError or UsageError if the tokenizer or the model's inputs do not fit."""
        super().__init__(listing)
        self._reader = TextReader(inputs, preprocess)

    @property
    def preprocess(self) -> TextPreprocess:
        """The preprocessing of each text."""
        return self._reader.preprocess

    def _read_feed(self, path: Path) -> dict[str, NDArray[Any]]:
        text = read_text(path).strip()
        if not text:
            raise DataError(f"{path}: the text is empty; remove the file")
        return self._reader.read(text, str(path))


class TextLines(ArraySource):
    """The lines of a .txt file; each is one sample, and blank lines are none."""

    def __init__(self, path: Path, inputs: Sequence[InputSpec], preprocess: TextPreprocess) -> None:
        """Raise DataError or UsageError if the file, the tokenizer or the model's inputs do not fit."""
        self._reader = TextReader(inputs, preprocess)
        self._title = path.name
        # by \n alone: other separators of str.splitlines may stand inside a text
        lines = read_text(path).split("\n")
        self._lines = [(k, line.strip()) for k, line in enumerate(lines, 1) if line.strip()]
        if not self._lines:
            raise DataError(f"{path}: contains no samples: every line is blank")

    @property
    def preprocess(self) -> TextPreprocess:
        """The preprocessing of each line."""
        return self._reader.preprocess

    def positions(self, at_most: int | None = None) -> range:
        """All positions, or the first ``at_most``."""
        return range(len(self._lines))[:at_most]

    def name(self, position: int) -> str:
        """The file and the line, e.g. ``texts.txt line 12``."""
        return f"{self._title} line {self._lines[position][0]}"

    def identity(self, position: int) -> str:
        """The number of the line."""
        return str(self._lines[position][0])

    def highest_label(self, positions: Sequence[int] | None) -> int:
        """-1: lines have no labels."""
        return -1

    def read(self, positions: Iterable[int]) -> Iterator[Sample | BadSample]:
        """Tokenize the lines one by one."""
        for position in positions:
            name = self.name(position)
            try:
                yield Sample(name, self._reader.read(self._lines[position][1], name))
            except DataError as error:
                yield BadSample(name, error)


def read_text(path: Path) -> str:
    """The text in a file of UTF-8.

    Raises:
        DataError: The file cannot be read, is too large, or is no text.
    """
    with files.explain_unreadable(path):
        if path.is_file() and path.stat().st_size > MAX_TEXT_BYTES:
            raise DataError(
                f"{path}: the file is too large; the limit is {MAX_TEXT_BYTES >> 20} MiB"
            )
        return files.read(path).decode("utf-8-sig")
