"""Numbers of classes by name: from a list in a file, or from the names of class folders.

A list has one class name on each line, in the order of the model's classes. If every line starts with a number, these
are the class numbers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ptq.core import files
from ptq.core.errors import DataError

CLASS_LIST = "classes.txt"
SORTED_ORDER = "folder names in sorted order"
"""Source of labels that nobody numbered: their order may be another one than the model's."""
_NUMBERED = re.compile(r"([0-9]{1,9})\s*[\s:,;]\s*(\S.*)")


def parse_class_list(lines: Sequence[str], where: str) -> dict[str, int]:
    """Class number by name.

    Args:
        lines: Lines of a list. Empty lines are classes without a name.
        where: Name of the file in errors.

    Raises:
        DataError: A name or a number is listed twice.
    """
    texts = [line.strip().strip('"').strip() for line in lines]
    matches = [_NUMBERED.fullmatch(text) for text in texts if text]
    numbered = bool(matches) and all(matches)
    numbers: dict[str, int] = {}
    for index, text in enumerate(texts):
        if not text:
            continue
        name, number = text, index
        if numbered and (match := _NUMBERED.fullmatch(text)) is not None:
            name, number = match.group(2), int(match.group(1))
        if name in numbers or (numbered and number in numbers.values()):
            what = f"class {name!r}" if name in numbers else f"class number {number}"
            raise DataError(f"{where} line {index + 1}: {what} is listed twice")
        numbers[name] = number
    return numbers


def read_class_list(root: Path) -> dict[str, int] | None:
    """Class number by name from ``classes.txt`` in a folder; None if there is no such file.

    Raises:
        DataError: The file cannot be read, is empty, or lists a class twice; or it is no regular file.
    """
    path = root / CLASS_LIST
    if not os.path.lexists(path):
        return None
    files.require_regular(path)
    numbers = parse_class_list(read_lines(path), str(path))
    if not numbers:
        raise DataError(
            f"{path}: is empty; write one class name on each line, in the model's order"
        )
    return numbers


def read_lines(path: Path) -> list[str]:
    """Lines of a text file; raise DataError if it cannot be read."""
    with files.explain_unreadable(path):
        return path.read_text("utf-8-sig").splitlines()


def number_folders(
    folders: Sequence[str],
    listed: Mapping[str, int] | None,
    where: Path,
    required: frozenset[str] = frozenset(),
) -> tuple[dict[str, int], str]:
    """Label of each class folder, and how it was found.

    Folders whose names are integers have these as labels. Otherwise the list of class names decides, then leading
    numbers of the names if they are 0 … n − 1, then the position in sorted order.

    Args:
        folders: Names of the class folders.
        listed: Class number by name, from a list; None without a list.
        where: The list, for errors; without a list, anything in the folder that holds them.
        required: The folders that the list must have; the others need no number.

    Raises:
        DataError: A name is a negative integer, or the list does not have it.
    """
    names = sorted(folders)
    if any(re.fullmatch(r"-[0-9]{1,9}", name) for name in names) and all(
        re.fullmatch(r"-?[0-9]{1,9}", name) for name in names
    ):
        raise DataError(
            f"{where.parent}: class folder {names[0]!r} is a negative number; name class folders by the model's "
            f"class numbers, from 0 on, or list their names in the model's order in {CLASS_LIST}"
        )
    numbers = {n: int(n) for n in names if re.fullmatch(r"[0-9]{1,9}", n)}
    if len(numbers) == len(names) and len(set(numbers.values())) == len(names):
        return numbers, "folder names"
    if listed is not None:
        unknown = [name for name in names if name in required and name not in listed]
        if unknown:
            raise DataError(
                f"{where}: does not list class folder {unknown[0]!r}; add it, or rename the folder"
            )
        numbers = {name: listed[name] for name in names if name in listed}
        return numbers, f"folder names, numbered by {where.name}"
    prefixed = {n: int(n.split("_")[0]) for n in names if re.match(r"[0-9]{1,9}_", n)}
    if sorted(prefixed.values()) == list(range(len(names))):
        return prefixed, "folder names"
    return {n: position for position, n in enumerate(names)}, SORTED_ORDER
