"""The files of a folder, or of a shard, that may hold labels."""

from __future__ import annotations

import os
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ptq.core.errors import DataError
from ptq.core.files import require_regular
from ptq.data.folder import SAMPLE_SUFFIXES, ListingPart
from ptq.data.labels.class_names import CLASS_LIST, read_lines
from ptq.data.labels.label_files import (
    TABLE_SUFFIXES,
    LabelFile,
    parse_label_file,
    split_line,
)

_READABLE = (".txt", *TABLE_SUFFIXES)
_NAMED_LABELS = tuple(f"labels{suffix}" for suffix in _READABLE)
_MAX_PROBED_BYTES = 2**16


@dataclass(frozen=True)
class FoundLabelFiles:
    """Files of a folder, or of a shard, that may hold labels.

    Attributes:
        part: The folder or shard.
        known: Its samples, also those that a pattern leaves out.
        named: Those that are named ``labels``.
        readable: Those of ``named`` that can be read.
        tables: Other tables and lists of samples.
        doubtful: Texts that are not read, though a sample stands behind a header, or their name is like a list of
            classes.
    """

    part: ListingPart
    known: Container[str]
    named: Sequence[str]
    readable: Sequence[str]
    tables: Sequence[str]
    doubtful: Sequence[str]

    @property
    def names(self) -> list[str]:
        """All of them."""
        return [*self.named, *self.tables, *self.doubtful]


def find_label_files(
    part: ListingPart, known: Container[str], *, has_class_list: bool
) -> FoundLabelFiles:
    """The files of a folder or shard that may hold labels.

    Args:
        part: The folder or shard.
        known: Its samples, also those that a pattern leaves out.
        has_class_list: Whether there is a list of class names.

    Raises:
        DataError: The folder has several files named ``labels``, or a file cannot be read.
    """
    files = list_label_files(part.folder, part.samples)
    named = [name for name in files if Path(name).stem.lower() == "labels"]
    readable = [n for suffix in _READABLE for n in named if Path(n).suffix.lower() == suffix]
    if len(readable) > 1:
        raise DataError(f"{part.folder}: has both {' and '.join(readable)}; keep one")
    others = {name: _read_start(part.folder / name) for name in files if name not in named}
    tables = [name for name, lines in others.items() if _is_table(name, lines, known)]
    doubtful = [
        name
        for name, lines in others.items()
        if name not in tables
        and (_has_image_below(lines, known) or (name.lower() == CLASS_LIST and not has_class_list))
    ]
    return FoundLabelFiles(part, known, named, readable, tables, doubtful)


def read_label_file(
    files: FoundLabelFiles, numbers: Mapping[str, int], *, use_tables: bool
) -> tuple[str, LabelFile] | None:
    """The file of labels of a folder or shard, by its name, with samples as in the listing; None without one.

    Raises:
        DataError: It is damaged, or there are several.
    """
    folder, samples = files.part.folder, files.part.samples
    named = [*files.readable, *(files.tables if use_tables else ())]
    for name in named:
        if name in files.tables and len(files.tables) > 1:
            raise DataError(
                f"{folder}: has {' and '.join(files.tables)}; keep one, or name one labels.csv"
            )
        path = folder / name
        found = parse_label_file(read_lines(path), path, files.known, numbers, samples)
        if found is not None:
            labels = {samples[image]: accepted for image, accepted in found.labels.items()}
            return name, replace(found, labels=labels)
        if name in files.tables:
            raise DataError(
                f"{path}: names no image of the folder; give columns path and label, or remove the file"
            )
    return None


def find_unused_label_files(root: Path) -> tuple[str, ...]:
    """Notes on files that look like labels, in a folder whose labels come from elsewhere."""
    files = list_label_files(root)
    return note_unread(
        [n for n in files if Path(n).stem.lower() == "labels" or n.lower().endswith(TABLE_SUFFIXES)]
    )


def note_unread(names: Sequence[str]) -> tuple[str, ...]:
    """A note on each file that is not read."""
    return tuple(
        f"{name} is not used" + (f"; name it {CLASS_LIST}" if name.lower() == CLASS_LIST else "")
        for name in dict.fromkeys(names)
    )


def list_entries(root: Path) -> list[os.DirEntry[str]]:
    """What a folder holds, sorted and without hidden files; raise DataError if it cannot be listed."""
    try:
        with os.scandir(root) as entries:
            found = [entry for entry in entries if not entry.name.startswith(".")]
    except OSError as error:
        raise DataError(f"{root}: cannot list the folder: {error.strerror}") from error
    return sorted(found, key=lambda entry: entry.name)


def list_label_files(root: Path, samples: Collection[str] = ()) -> list[str]:
    """Files at the top that may hold labels, sorted; none of the samples.

    Raises:
        DataError: The folder cannot be listed, or a file named as labels is no regular file.
    """
    files = [entry.name for entry in list_entries(root)]
    for name in files:
        if name.lower() in _NAMED_LABELS and name not in samples:
            require_regular(root / name)
    return [
        name
        for name in files
        if name != CLASS_LIST
        and name not in samples
        and Path(name).suffix.lower() not in SAMPLE_SUFFIXES
        and (Path(name).stem.lower() == "labels" or Path(name).suffix.lower() in _READABLE)
        and (root / name).is_file()
    ]


def _read_start(path: Path) -> list[str]:
    """The first lines of a text, none of a table; raise DataError if it cannot be read."""
    if path.suffix.lower() in TABLE_SUFFIXES:
        return []
    try:
        with path.open("rb") as stream:
            start = stream.read(_MAX_PROBED_BYTES).decode("utf-8-sig", "replace")
    except OSError as error:
        raise DataError(f"{path}: cannot read the file: {error.strerror}") from error
    return start.splitlines()


def _is_table(name: str, lines: Sequence[str], images: Container[str]) -> bool:
    """Whether a file is a table, or a text whose first line names an image of the folder."""
    if Path(name).suffix.lower() in TABLE_SUFFIXES:
        return True
    return bool(lines) and split_line(lines[0], images)[0] in images


def _has_image_below(lines: Sequence[str], images: Container[str]) -> bool:
    """Whether a text has an image behind comments and a header, as a list of labels may have them."""
    rows = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return any(split_line(line, images)[0] in images for line in rows[:2])
