"""Labels of texts: what a line of text, or a recording, really says.

The file is one of these:

- a table (.csv, .tsv) with a header: one column of samples (``path``, ``file_name``, …) and one of texts (``text``,
  ``transcript``, ``label``, …);
- lines ``sample text``, separated by a tab, a comma, or a blank, as PaddleOCR and LibriSpeech write them;
- one text a line, in the order of the samples.

A sample is named by its path in the data, by its file name, or by that without the ending. Only a line feed ends a
line, because other separators may stand inside a text.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ptq.core import files
from ptq.core.errors import DataError
from ptq.core.wording import plural
from ptq.data.labels.label_files import PATH_COLUMNS, TABLE_SUFFIXES

_SURE_TEXT_COLUMNS = frozenset(
    "text texts transcript transcription sentence words gt".split()  # noqa: SIM905
)
_OTHER_TEXT_COLUMNS = frozenset(["label", "labels", "target"])
"""Columns of texts, unless there is a surer one: beside texts these may be classes."""
_TAB, _COMMA, _BLANKS = r"\t", r"\s*[,;]\s*", r"\s+"
"""Separators of a sample and its text, as patterns."""
_MAX_BLANKS = 8
"""Blanks of a line before which its sample is looked for."""
_ADVICE = "write a table with the header path,text, or a tab between name and text"


class _Row(NamedTuple):
    """A line that names a sample: its number, what names the sample, and the text."""

    number: int
    sample: str
    text: str


def read_text_labels(path: Path, names: Sequence[str]) -> dict[str, str]:
    """The labelled texts of samples, without blanks at both ends; samples that the file does not name have none.

    Args:
        path: The file.
        names: Names of all samples, in order.

    Raises:
        DataError: The file cannot be read, is not as described above, or names no sample.
    """
    with files.explain_unreadable(path):
        lines = path.read_text("utf-8-sig").split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    known = _index_names(names)
    rows = _read_table(path, lines, known)
    if rows is None:
        rows = _choose_pairs(path, lines, names, known)
    if rows is None:
        return {name: line.strip() for name, line in zip(names, lines, strict=True)}
    found: dict[str, str] = {}
    for row in rows:
        name = _find(row.sample, known)
        if name is None:
            continue  # a file may label other samples too
        if name in found:
            raise DataError(f"{path} line {row.number}: sample {row.sample!r} is listed twice")
        found[name] = row.text.strip()
    if not found:
        raise DataError(f"{path}: no text belongs to a sample, for example {names[0]!r}")
    return found


def _index_names(names: Sequence[str]) -> Mapping[str, str]:
    """Name of a sample by the ways to write it; a way that two samples share is left out."""
    index: dict[str, str | None] = {}
    for name in names:
        path = PurePosixPath(name)
        for way in {path.name, path.stem, str(path.with_suffix(""))}:
            index[way] = None if way in index else name
    index |= {name: name for name in names}
    return {way: name for way, name in index.items() if name is not None}


def _read_table(path: Path, lines: Sequence[str], known: Mapping[str, str]) -> list[_Row] | None:
    """The rows of a table; None if the first line is no header of one.

    Raises:
        DataError: A row has another number of cells, a quote is not closed, or a column is not known for certain.
    """
    if path.suffix.lower() not in TABLE_SUFFIXES or not lines:
        return None
    separator = next((s for s in "\t,;" if s in lines[0]), ",")
    header = [
        cell.strip().strip('"').lower().replace(" ", "_") for cell in lines[0].split(separator)
    ]
    columns = PATH_COLUMNS | _SURE_TEXT_COLUMNS | _OTHER_TEXT_COLUMNS
    others = {*header} - columns
    if len(header) < 2 or others == {*header} or any(_find(cell, known) for cell in others):
        return None
    table = []
    for number, line in enumerate(lines[1:], 2):
        if line.strip():
            cells = _parse_cells(path, number, line, separator)
            if any(cells[len(header) :]):
                raise DataError(
                    f"{path} line {number}: has {plural(len(cells), 'cell')}, the header {len(header)}; "
                    "if a text holds the separator, write a .csv with this text in quotes"
                )
            table.append((number, cells))
    samples = _choose_sample_column(path, header, [cells for _, cells in table], known)
    if samples is None:
        return None
    texts = _choose_text_column(path, header, samples)
    for number, cells in table:
        if len(cells) <= max(samples, texts):
            raise DataError(f"{path} line {number}: has {plural(len(cells), 'cell')} only")
    return [_Row(number, cells[samples], cells[texts]) for number, cells in table]


def _parse_cells(path: Path, number: int, line: str, separator: str) -> list[str]:
    """The cells of a line. Between tabs a quote is part of the text, unless it can only be a mark of the writer.

    Raises:
        DataError: A quoted cell has no end, or text behind it.
    """
    if separator == "\t":
        cells = line.split(separator)
        quoted = all(map(_is_quoted, filter(None, cells)))
        return [_unquote(cell) if quoted or '""' in cell[1:-1] else cell for cell in cells]
    try:
        return next(csv.reader([line], delimiter=separator, skipinitialspace=True, strict=True))
    except csv.Error as error:
        raise DataError(
            f"{path} line {number}: a quote is not closed, or text follows it; write each row on one line, and "
            'quotes inside a quoted text twice ("")'
        ) from error


def _is_quoted(cell: str) -> bool:
    """Whether a cell stands in quotes, and every quote in it twice."""
    return re.fullmatch(r'"([^"]|"")*"', cell.strip()) is not None


def _unquote(cell: str) -> str:
    return cell.strip()[1:-1].replace('""', '"') if _is_quoted(cell) else cell


def _choose_sample_column(
    path: Path, header: Sequence[str], table: Sequence[Sequence[str]], known: Mapping[str, str]
) -> int | None:
    """The column that names the samples: by its title, else by its cells; None if no column names one.

    Raises:
        DataError: Several columns may be meant.
    """
    titled = [column for column, title in enumerate(header) if title in PATH_COLUMNS]
    if len(titled) == 1:
        return titled[0]
    found = [
        column
        for column in titled or range(len(header))
        if any(_find(cells[column], known) for cells in table if len(cells) > column)
    ]
    if len(found) > 1:
        shown = " and ".join(repr(header[column]) for column in found)
        raise DataError(f"{path} line 1: columns {shown} name samples; call one of them path")
    return found[0] if found else None


def _choose_text_column(path: Path, header: Sequence[str], samples: int) -> int:
    """The column of texts: the only one of a known title, or the only one beside the samples.

    Raises:
        DataError: None or several may be meant.
    """
    others = [column for column in range(len(header)) if column != samples]
    for titles in (_SURE_TEXT_COLUMNS, _OTHER_TEXT_COLUMNS):
        named = [column for column in others if header[column] in titles]
        if len(named) == 1:
            return named[0]
        if named:
            shown = " and ".join(repr(header[column]) for column in named)
            raise DataError(f"{path} line 1: columns {shown} may hold the texts; remove one")
    if len(others) == 1:
        return others[0]
    shown = ", ".join(map(repr, header))
    raise DataError(
        f"{path} line 1: none of the columns {shown} is known to hold the texts; call it text"
    )


def _choose_pairs(
    path: Path, lines: Sequence[str], names: Sequence[str], known: Mapping[str, str]
) -> list[_Row] | None:
    """The lines that start with a sample; None if they are texts in the order of the samples.

    A file name, or a tab behind a name, is certain. A name without its ending may be the first word of a text: then
    the whole file decides.

    Raises:
        DataError: The lines are neither, or may be both.
    """
    rows: list[_Row] = []
    is_certain = False
    for number, line in enumerate(lines, 1):
        for separator, sample, text in _split(line, is_table=path.suffix.lower() in TABLE_SUFFIXES):
            if name := _find(sample, known):
                rows.append(_Row(number, sample, text))
                file = PurePosixPath(name)
                has_ending = bool(file.suffix) and _clean(sample).endswith(file.name)
                is_certain |= has_ending or separator == _TAB
                break
    named = len({_find(row.sample, known) for row in rows})
    filled = sum(bool(line.strip()) for line in lines)
    if is_certain or (rows and named == len(rows) == filled):
        return rows
    is_complete = len(lines) == len(names)
    if is_complete and (2 * len(rows) < len(lines) or named < len(rows)):
        return None  # texts in order, of which some happen to start like a name
    # texts in order are as many as the samples
    if not is_complete and named == len(rows) and 2 * named >= min(filled, 2 * len(names)) > 0:
        return rows
    if rows:
        raise DataError(
            f"{path}: only {len(rows)} of {plural(len(lines), 'line')} begin with a sample, so names and texts "
            f"cannot be separated; {_ADVICE}"
        )
    raise DataError(
        f"{path}: no line names a sample, and it has {plural(len(lines), 'line')} for "
        f"{plural(len(names), 'sample')}; give lines 'path text', or one text for each sample in order"
    )


def _split(line: str, *, is_table: bool) -> Iterator[tuple[str, str, str]]:
    """The ways to split a line: the separator, the sample and the text, the surest separator first.

    A text stands in quotes if its sample does; in a table, also if commas separate them.
    """
    blanks = list(itertools.islice(re.finditer(_BLANKS, line), _MAX_BLANKS))
    for separator in (_TAB, _COMMA):
        parts = re.fullmatch(rf'("(?:[^"]|"")*"|.*?){separator}(.*)', line, re.DOTALL)
        if parts is not None:
            sample, text = parts.groups()
            doubled = separator == _COMMA or '""' in text[1:-1]
            quoted = _is_quoted(sample) or (is_table and doubled)
            yield separator, _unquote(sample), _unquote(text) if quoted else text
    for blank in reversed(blanks):  # a name may have blanks
        sample = line[: blank.start()]
        quoted = _is_quoted(sample) or (is_table and '""' in line[blank.end() + 1 : -1])
        text = line[blank.end() :]
        yield _BLANKS, _unquote(sample), _unquote(text) if quoted else text


def _find(sample: str, known: Mapping[str, str]) -> str | None:
    """Name of the sample that is meant: by its path, else by its file name."""
    cleaned = _clean(sample)
    return known.get(cleaned) or known.get(cleaned.rpartition("/")[2])


def _clean(sample: str) -> str:
    return sample.strip().strip('"').replace("\\", "/").removeprefix("./")
