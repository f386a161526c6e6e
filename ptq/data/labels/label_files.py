"""Labels of samples from a file in their folder: lines, or a table with a header.

A line is ``relative/path.png label[ label…]``, separated by blanks, commas, semicolons or tabs. A label is a class
number, or a name from ``classes.txt`` or of a class folder. Lines of 0 and 1 may be one-hot rows, as in arrays. A
table with a header has one column of paths and one of labels.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ptq.core.errors import DataError
from ptq.data.folder import SAMPLE_SUFFIXES
from ptq.data.labels.class_names import CLASS_LIST
from ptq.data.labels.label_numbers import choose_names, is_number, number_text
from ptq.data.labels.label_rows import ONE_HOT_CONVERTED, convert_one_hot, list_unique_classes

PATH_COLUMNS = frozenset(
    "path file filename file_name filepath file_path image image_path image_name img name".split()  # noqa: SIM905
)
_LABEL_COLUMNS = frozenset(
    "label labels class class_id class_name class_index category target y".split()  # noqa: SIM905
)
_SEPARATORS = ",;\t"
TABLE_SUFFIXES = (".csv", ".tsv")

Labels = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class LabelFile:
    """Content of a file of labels.

    Attributes:
        labels: Accepted classes by image.
        names: Class number of each name that the file uses; empty if it uses numbers alone.
        notes: What was converted.
    """

    labels: Labels
    names: Mapping[str, int]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Header:
    """Kinds of the two columns of a table, and what separates them; blanks if it is empty."""

    kinds: tuple[str, ...]
    separator: str


@dataclass(frozen=True)
class _Row:
    """Labels of an image, and where they stand: by the place in a file, and for errors."""

    place: str
    where: str
    labels: Sequence[str | int]


def parse_label_file(
    lines: Sequence[str],
    path: Path,
    images: Container[str],
    classes: Mapping[str, int],
    selected: Container[str],
) -> LabelFile | None:
    """Accepted classes by image; None if no line names an image, for example in a list of class names.

    Args:
        lines: Lines of the file.
        path: The file. In a .csv or .tsv a first line without an image is a header.
        images: The images of the folder, by relative path.
        classes: Class number by name; may be empty.
        selected: The images that are read. Numbers of others only show whether rows are one-hot.

    Raises:
        DataError: A line is damaged, or a column is unknown. The text names it.
    """
    header = _read_header(lines, path, images)
    rows: dict[str, _Row] = {}
    outside: list[int] = []
    for number, line in enumerate(lines, start=1):
        where = f"{path} line {number}"
        if number == 1 and header is not None:
            continue
        name, texts = _split_row(line, header, images)
        if name not in images:
            if Path(name).suffix.lower() in SAMPLE_SUFFIXES or (name and header is not None):
                raise DataError(f"{where}: image {name!r} is not in the folder")
            outside += [number] if name and rows else []
            continue
        if name not in selected and not all(map(is_number, texts)):
            continue
        if name in rows or not texts:
            fault = "is listed twice" if name in rows else "has no label"
            raise DataError(f"{where}: image {name!r} {fault}")
        if header is not None and (cells := _count_label_cells(line, name, texts, header)) > 1:
            raise DataError(
                f"{where}: image {name!r} has {cells} labels, but the header names one column of labels; keep one, "
                "or remove the header if all are accepted classes or one-hot rows"
            )
        rows[name] = _Row(f"line {number}", f"{where}: image {name!r}", texts)
    if outside:
        raise DataError(f"{path} line {outside[0]}: does not name an image")
    return _accept_classes(rows, classes, path, selected) if rows else None


def accept_labels(
    labels: Mapping[str, Sequence[str | int]],
    path: Path,
    classes: Mapping[str, int],
    selected: Container[str],
) -> LabelFile:
    """Accepted classes by image, of labels that stand beside each image: numbers, or a name.

    Args:
        labels: The labels by image. Integers are numbers; a text of digits may be a name.
        path: What holds them, for errors.
        classes: Class number by name; may be empty.
        selected: The images that are read.

    Raises:
        DataError: A label is neither a number nor a known name.
    """
    rows: dict[str, _Row] = {}
    for name, of_image in labels.items():
        if not of_image:
            raise DataError(f"{path}: image {name!r} has no label")
        rows[name] = _Row(f"image {name!r}", f"{path}: image {name!r}", of_image)
    return _accept_classes(rows, classes, path, selected)


def _accept_classes(
    rows: Mapping[str, _Row],
    classes: Mapping[str, int],
    path: Path,
    selected: Container[str],
) -> LabelFile:
    """Accepted classes from the labels of each image; rows of names are no one-hot rows.

    All rows decide whether digits are names, and whether rows are one-hot, also those of images that are not read.

    Raises:
        DataError: A label is no class. Or some rows are one-hot and others are not, or two readings fit.
    """
    places = [row.place for row in rows.values()]
    width = max(len(row.labels) for row in rows.values())
    texts = {label for row in rows.values() for label in row.labels if isinstance(label, str)}
    known = choose_names(texts, classes, str(path), has_lists=width > 1)
    names = {text: known[text] for text in texts & known.keys()}
    table = np.full((len(rows), width), -1, np.int64)
    for numbers, row in zip(table, rows.values(), strict=True):
        numbers[: len(row.labels)] = _number_labels(row, known)
    numbers, converted = table, False
    if not names:
        numbers, converted = convert_one_hot(table, str(path), lambda row: places[row])
    accepted = {
        name: list_unique_classes(row)
        for name, row in zip(rows, numbers, strict=True)
        if name in selected
    }
    return LabelFile(accepted, names, (ONE_HOT_CONVERTED,) if converted else ())


def _number_labels(row: _Row, names: Mapping[str, int]) -> Sequence[int]:
    numbers = []
    for label in row.labels:
        number = label if isinstance(label, int) else number_text(label, names)
        if number is None:
            unknown = " and no known class" if names else ""
            raise DataError(
                f"{row.where}: {label!r} is no class number{unknown}; give numbers, or list the class names "
                f"in the model's order in {CLASS_LIST}"
            )
        numbers.append(number)
    if min(numbers) < -1:
        raise DataError(
            f"{row.where}: label {min(numbers)} is negative; only -1 is allowed, for no label"
        )
    return numbers


_PATH_FIRST, _LABEL_FIRST = ("path", "label"), ("label", "path")


def _read_header(lines: Sequence[str], path: Path, images: Container[str]) -> _Header | None:
    """The header of a table; None if the first line is no header.

    Raises:
        DataError: The header has not one column of paths and one of labels.
    """
    if not lines or split_line(lines[0], images)[0] in images:
        return None
    cells = [cell.strip() for cell in _split_cells(lines[0])]
    if len(cells) < 2:
        by_blanks = lines[0].split()
        kinds = tuple(_get_column_kind(cell) for cell in by_blanks)
        return _Header(kinds, "") if kinds in (_PATH_FIRST, _LABEL_FIRST) else None
    kinds = tuple(_get_column_kind(cell) for cell in cells)
    if kinds in (_PATH_FIRST, _LABEL_FIRST):
        return _Header(kinds, _find_separator(lines[0]))
    if not any(kinds) and path.suffix.lower() not in TABLE_SUFFIXES:
        return None
    unknown = [cell or "(no name)" for cell, kind in zip(cells, kinds, strict=True) if not kind]
    what = f"unknown column {', '.join(unknown)}" if unknown else f"columns {', '.join(cells)}"
    raise DataError(
        f"{path}: {what}; keep one column named path and one named label, or remove the file"
    )


def _get_column_kind(name: str) -> str:
    name = name.lower().replace(" ", "_")
    return "path" if name in PATH_COLUMNS else "label" if name in _LABEL_COLUMNS else ""


def _find_separator(line: str) -> str:
    return next((s for s in _SEPARATORS if s in line), ",")


def _split_cells(line: str, separator: str = "") -> list[str]:
    delimiter = separator or _find_separator(line)
    return next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])


def _split_row(line: str, header: _Header | None, images: Container[str]) -> tuple[str, list[str]]:
    """Image and labels of a row, whose labels may come first."""
    if header is None or header.kinds != _LABEL_FIRST:
        return split_line(line, images)
    cells = [cell.strip() for cell in _split_cells(line)]
    return (_clean_path(cells[-1]), cells[:-1]) if cells else ("", [])


def _count_label_cells(line: str, name: str, texts: Sequence[str], header: _Header) -> int:
    """Number of cells of a row with a label; a cell may be a list, and a path without quotes have separators."""
    if not header.separator:
        return len(texts)
    cells = [_clean_path(cell.strip()) for cell in _split_cells(line, header.separator)]
    of_path = 1 if name in cells else 1 + name.count(header.separator)
    return sum(map(bool, cells)) - of_path


def split_line(line: str, images: Container[str]) -> tuple[str, list[str]]:
    """Image and labels of one line; without an image of the folder, its text without numbers at the end."""
    rest, numbers = line.strip(), list[str]()
    while match := re.search(r"[\s,;](-?[0-9]{1,9})$", rest):
        numbers.insert(0, match.group(1))
        rest = rest[: match.start()].rstrip(" \t,;")
    if _clean_path(rest) in images:
        return _clean_path(rest), numbers
    cells = _split_cells(line)
    if cells and _clean_path(cells[0].strip()) in images:
        return _clean_path(cells[0].strip()), [cell.strip() for cell in cells[1:] if cell.strip()]
    for blank in reversed(list(re.finditer(r"\s+", line.strip()))):
        name = _clean_path(line.strip()[: blank.start()].rstrip(" \t,;"))
        if name in images:
            return name, [line.strip()[blank.end() :].strip('"')]
    first = _clean_path(line.strip().split(" ")[0])
    if Path(first).suffix.lower() in SAMPLE_SUFFIXES:
        return first, numbers
    return _clean_path(rest), numbers


def _clean_path(text: str) -> str:
    return text.strip('"').replace("\\", "/").removeprefix("./")
