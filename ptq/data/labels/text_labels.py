"""Labels of texts: what a line of text, or a recording, really says.

The file is one of these:

- a table (.csv, .tsv) with a header: one column of samples (``path``, ``file_name``, …) and one of texts (``text``,
  ``transcript``, ``label``, …);
- lines ``sample text``, separated by a tab, a comma, or a blank, as PaddleOCR and LibriSpeech write them;
- one text a line, in the order of the samples.

A sample is named by its path in the data, by its file name, or by that without the ending.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from ptq.core.errors import DataError
from ptq.core.wording import plural
from ptq.data.labels.class_names import read_lines
from ptq.data.labels.label_files import PATH_COLUMNS, TABLE_SUFFIXES

TEXT_COLUMNS = frozenset(
    "text texts transcript transcription sentence words label labels gt target".split()  # noqa: SIM905
)


def read_text_labels(path: Path, names: Sequence[str]) -> dict[str, str]:
    """The labelled texts of samples, without blanks at both ends; samples that the file does not name have none.

    Args:
        path: The file.
        names: Names of all samples, in order.

    Raises:
        DataError: The file cannot be read, is not as described above, or names no sample.
    """
    lines = read_lines(path)
    while lines and not lines[-1].strip():
        lines.pop()
    known = _index_names(names)
    rows = _read_table(path, lines)
    if rows is None:
        rows = _read_pairs(lines, known)
        if len(lines) == len(names) and len(rows) < len(lines) / 2:
            rows = []  # texts in order, of which some happen to start like a name
    if not rows:
        if len(lines) != len(names):
            raise DataError(
                f"{path}: no line names a sample, and it has {plural(len(lines), 'line')} for "
                f"{plural(len(names), 'sample')}; give lines 'path text', or one text for each sample in order"
            )
        return {name: line.strip() for name, line in zip(names, lines, strict=True)}
    found: dict[str, str] = {}
    for number, sample, text in rows:
        name = _find(sample, known)
        if name is None:
            continue  # a file may label other samples too
        if name in found:
            raise DataError(f"{path} line {number}: sample {sample!r} is listed twice")
        found[name] = text.strip()
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


def _read_table(path: Path, lines: Sequence[str]) -> list[tuple[int, str, str]] | None:
    """Line number, sample and text of each row; None if the first line is no header of a table.

    Raises:
        DataError: A row has too few cells.
    """
    if path.suffix.lower() not in TABLE_SUFFIXES or not lines:
        return None
    separator = next((s for s in "\t,;" if s in lines[0]), ",")
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=True)
    header = [cell.strip().lower().replace(" ", "_") for cell in next(reader)]
    samples = [column for column, name in enumerate(header) if name in PATH_COLUMNS]
    texts = [column for column, name in enumerate(header) if name in TEXT_COLUMNS]
    if len(samples) != 1 or len(texts) != 1:
        return None
    rows = []
    for cells in reader:
        if not any(cells):
            continue
        if len(cells) <= max(samples[0], texts[0]):
            raise DataError(f"{path} line {reader.line_num}: has {plural(len(cells), 'cell')} only")
        rows.append((reader.line_num, cells[samples[0]], cells[texts[0]]))
    return rows


def _read_pairs(lines: Sequence[str], known: Mapping[str, str]) -> list[tuple[int, str, str]]:
    """Line number, sample and text of each line that starts with a sample."""
    rows = []
    for number, line in enumerate(lines, 1):
        pair = next((pair for pair in _split(line) if _find(pair[0], known)), None)
        if pair is not None:
            rows.append((number, *pair))
    return rows


def _split(line: str) -> Iterator[tuple[str, str]]:
    """The ways to split a line into a sample and its text, the surest separator first."""
    for separator in (r"\t", r"\s*[,;]\s*", r"\s+"):
        parts = re.split(separator, line, maxsplit=1)
        if len(parts) == 2:
            yield parts[0], parts[1]


def _find(sample: str, known: Mapping[str, str]) -> str | None:
    """Name of the sample that is meant: by its path, else by its file name."""
    cleaned = sample.strip().strip('"').replace("\\", "/").removeprefix("./")
    return known.get(cleaned) or known.get(cleaned.rpartition("/")[2])
