"""Labels of samples from a file in their folder: lines, or a table with a header.

A line is ``relative/path.png label[ label…]``, separated by blanks, commas, semicolons or tabs. A label is a class
number, or a name from ``classes.txt`` or of a class folder. A table has one column of paths and one of labels.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ptq.core.errors import DataError
from ptq.data.folder import SAMPLE_SUFFIXES
from ptq.data.labels.class_names import CLASS_LIST

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
    """

    labels: Labels
    names: Mapping[str, int]


def parse_label_file(
    lines: Sequence[str], path: Path, images: Collection[str], classes: Mapping[str, int]
) -> LabelFile | None:
    """Accepted classes by image; None if no line names an image, for example in a list of class names.

    Args:
        lines: Lines of the file.
        path: The file. In a .csv or .tsv a first line without an image is a header.
        images: The images of the folder, by relative path.
        classes: Class number by name; may be empty.

    Raises:
        DataError: A line is damaged, or a column is unknown. The text names it.
    """
    header = _read_header(lines, path, images)
    labels: Labels = {}
    names: dict[str, int] = {}
    outside: list[int] = []
    for number, line in enumerate(lines, start=1):
        where = f"{path} line {number}"
        if number == 1 and header is not None:
            continue
        name, texts = _reverse(line) if header == _LABEL_FIRST else split_line(line, images)
        if name not in images:
            if Path(name).suffix.lower() in SAMPLE_SUFFIXES or (name and header is not None):
                raise DataError(f"{where}: image {name!r} is not in the folder")
            outside += [number] if name and labels else []
            continue
        if name in labels or not texts:
            fault = "is listed twice" if name in labels else "has no label"
            raise DataError(f"{where}: image {name!r} {fault}")
        labels[name] = _number_labels(texts, f"{where}: image {name!r}", classes)
        names |= {text: classes[text] for text in texts if text in classes and not _is_number(text)}
    if outside:
        raise DataError(f"{path} line {outside[0]}: does not name an image")
    return LabelFile(labels, names) if labels else None


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?[0-9]{1,9}", text) is not None


def _number_labels(texts: Sequence[str], where: str, classes: Mapping[str, int]) -> tuple[int, ...]:
    numbers = []
    for text in texts:
        if _is_number(text):
            numbers.append(int(text))
        elif text in classes:
            numbers.append(classes[text])
        else:
            raise DataError(
                f"{where}: {text!r} is no class number{' and no known class' if classes else ''}; give numbers, or "
                f"list the class names in the model's order in {CLASS_LIST}"
            )
    if min(numbers) < -1:
        raise DataError(
            f"{where}: label {min(numbers)} is negative; only -1 is allowed, for no label"
        )
    return tuple(dict.fromkeys(number for number in numbers if number >= 0))


_PATH_FIRST, _LABEL_FIRST = ("path", "label"), ("label", "path")


def _read_header(
    lines: Sequence[str], path: Path, images: Collection[str]
) -> tuple[str, ...] | None:
    """Kinds of the two columns of a table with a header; None if the first line is no header.

    Raises:
        DataError: The header has not one column of paths and one of labels.
    """
    if not lines or split_line(lines[0], images)[0] in images:
        return None
    cells = [cell.strip() for cell in _split_cells(lines[0])]
    if len(cells) < 2:
        by_blanks = lines[0].split()
        kinds = tuple(_kind_of_column(cell) for cell in by_blanks)
        return kinds if kinds in (_PATH_FIRST, _LABEL_FIRST) else None
    kinds = tuple(_kind_of_column(cell) for cell in cells)
    if kinds in (_PATH_FIRST, _LABEL_FIRST):
        return kinds
    if not any(kinds) and path.suffix.lower() not in TABLE_SUFFIXES:
        return None
    unknown = [cell or "(no name)" for cell, kind in zip(cells, kinds, strict=True) if not kind]
    what = f"unknown column {', '.join(unknown)}" if unknown else f"columns {', '.join(cells)}"
    raise DataError(
        f"{path}: {what}; keep one column named path and one named label, or remove the file"
    )


def _kind_of_column(name: str) -> str:
    name = name.lower().replace(" ", "_")
    return "path" if name in PATH_COLUMNS else "label" if name in _LABEL_COLUMNS else ""


def _split_cells(line: str) -> list[str]:
    separator = next((s for s in _SEPARATORS if s in line), ",")
    return next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])


def _reverse(line: str) -> tuple[str, list[str]]:
    """Image and label of a row whose label comes first."""
    cells = [cell.strip() for cell in _split_cells(line)]
    return (_clean_path(cells[-1]), cells[:-1]) if cells else ("", [])


def split_line(line: str, images: Collection[str]) -> tuple[str, list[str]]:
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
