"""Numbers of classes by name: from a list in a file, or from the names of class folders.

A list has one class name on each line, in the order of the model's classes. If every line starts with a number, these
are the class numbers, unless data use a line as a name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from ptq.core import files
from ptq.core.errors import DataError
from ptq.data.labelling import Labelling

CLASS_LIST = "classes.txt"
SORTED_ORDER = "folder names in sorted order"
"""Source of labels that nobody numbered: their order may be another one than the model's."""
_INTEGER = re.compile(r"([0-9]{1,9})")
_PREFIXED = re.compile(r"([0-9]{1,9})(?:[_.].*)?")
_MEASURED = re.compile(r"[0-9]+[_.][0-9].*")
"""A range such as 11_20, or a fraction such as 1.5."""
_NUMBERED = re.compile(r"([0-9]{1,9})\s*[\s:,;]\s*(\S.*)")


def parse_class_list(
    lines: Sequence[str], where: str, known: Collection[str] = ()
) -> dict[str, int]:
    """Class number by name.

    Args:
        lines: Lines of a list. Empty lines are classes without a name.
        where: Name of the file in errors.
        known: Names that data use. A line that is one of them, such as ``100 euro``, does not start with a number.

    Raises:
        DataError: A name or a number is listed twice. Or lines that data use as names start with the class numbers.
    """
    texts = [line.strip().strip('"').strip() for line in lines]
    matches = [_NUMBERED.fullmatch(text) for text in texts if text]
    numbered = bool(matches) and all(matches)
    if numbered and (used := {*texts}.intersection(known)):
        _require_measures(texts, min(used), where)
        numbered = False
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


def _require_measures(lines: Sequence[str], name: str, where: str) -> None:
    """Refuse names that start with numbers, such as ``name``, if these may be the class numbers, not the positions.

    Raises:
        DataError: They are 0 to n − 1, or 1 to n, and differ from the positions of their lines.
    """
    found = enumerate(map(_NUMBERED.fullmatch, lines))
    numbers = {position: int(match.group(1)) for position, match in found if match is not None}
    count = len(numbers)
    is_counted = sorted(numbers.values()) in ([*range(count)], [*range(1, count + 1)])
    if is_counted and any(position != number for position, number in numbers.items()):
        raise DataError(
            f"{where}: the numbers that begin its lines may be the class numbers, or parts of names such as "
            f"{name!r}; to keep the names, write the class number before each, as in '0 {name}'"
        )


def read_class_list(root: Path, known: Collection[str] = ()) -> dict[str, int] | None:
    """Class number by name from ``classes.txt`` in a folder; None if there is no such file.

    ``known`` are names that data use, as in `parse_class_list`.

    Raises:
        DataError: The file cannot be read, is empty, or lists a class twice; or it is no regular file.
    """
    path = root / CLASS_LIST
    if not os.path.lexists(path):
        return None
    files.require_regular(path)
    numbers = parse_class_list(read_lines(path), str(path), known)
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
    required: Collection[str] = (),
    beside: Collection[str] = (),
) -> Labelling:
    """Label of each class folder, how it was found, and a note if numbers in the names are not used.

    The list of class names decides. Names that are integers are the labels if the list has none of them. Without a
    list, so are integers before ``_`` or a full stop, if one of them is 0. Else labels are the positions in sorted
    order, as for ``1_a``, ``2_b`` … or ``2019_x``, ``2020_y``.

    Args:
        folders: Names of the class folders.
        listed: Class number by name, from a list; None without a list.
        where: The list, for errors; without a list, anything in the folder that holds them.
        required: The folders with samples, which the list must have; the others need no number. Empty for all.
        beside: Folders that were not selected. One with number 0 shows that numbers are not from 1 on.

    Raises:
        DataError: A name is a negative integer, or the list does not have it.
    """
    names = sorted(folders)
    used = sorted(required) or names
    if any(re.fullmatch(r"-[0-9]{1,9}", name) for name in used) and all(
        re.fullmatch(r"-?[0-9]{1,9}", name) for name in used
    ):
        raise DataError(
            f"{where.parent}: class folder {used[0]!r} is a negative number; name class folders by the model's "
            f"class numbers, from 0 on, or list their names in the model's order in {CLASS_LIST}"
        )
    integers = _read_numbers(_INTEGER, names, used)
    if listed is not None and any(listed.get(n, integers.get(n)) != integers.get(n) for n in used):
        integers = {}
    if integers:
        return Labelling("folder names", integers)
    if listed is not None:
        unknown = [name for name in used if name in required and name not in listed]
        if unknown:
            raise DataError(
                f"{where}: does not list class folder {unknown[0]!r}; add it, or rename the folder"
            )
        numbers = {name: listed[name] for name in names if name in listed}
        return Labelling(f"folder names, numbered by {where.name}", numbers)
    prefixed = _read_numbers(_PREFIXED, names, used)
    others = _read_numbers(_PREFIXED, beside, ())
    counted = sorted(prefixed.values()) == list(range(len(prefixed)))
    measured = any(map(_MEASURED.fullmatch, used))
    # a missing number is a missing class where numbers begin at 0; others may be years, sizes, or count from 1
    from_zero = 0 in {*prefixed.values(), *others.values()} and not measured
    if prefixed and (counted or from_zero):
        return Labelling("folder names", prefixed)
    positions = {n: position for position, n in enumerate(names)}
    return Labelling(SORTED_ORDER, positions, _note_numbers(positions))


def _read_numbers(
    way: re.Pattern[str], names: Collection[str], used: Collection[str]
) -> dict[str, int]:
    """Numbers in the names of folders; empty if a folder that is used has none, or the same as another.

    A folder that is not used has no number if its name has none, or that of another folder.
    """
    found = {name: int(match.group(1)) for name in names if (match := way.fullmatch(name))}
    users = set(used)
    numbers = {number: name for name, number in found.items() if name in users}
    if len(numbers) < len(used):
        return {}
    for name, number in found.items():
        numbers.setdefault(number, name)
    return {name: number for number, name in numbers.items()}


def _note_numbers(positions: Mapping[str, int]) -> tuple[str, ...]:
    """A note if the name of a folder starts with another number than its label."""
    for name, position in positions.items():
        match = _PREFIXED.fullmatch(name)
        if match is not None and int(match.group(1)) != position:
            return (
                f"numbers in the names of class folders are not used: {name} is class {position}; if that is "
                f"wrong, list the names in the model's order in {CLASS_LIST}",
            )
    return ()
