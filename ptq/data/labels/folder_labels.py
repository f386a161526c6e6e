"""Labels of a folder of images, from a file in it or from its class folders.

Labels come from the first of these sources:

1. A ``labels.txt``, ``labels.csv`` or ``labels.tsv`` that lists images.
2. Another table or list of images (``*.csv``, ``*.tsv``, ``*.txt``), if there are not two or more class folders.
3. The names of the class folders, the top-level ones (see `ptq.data.labels.class_names`). Beside a folder without
   samples that is named ``labels`` or ``annotations``, as data sets of boxes have it, sub-folders are no classes.
   Nor is a single one without a number.

A file that looks like labels and is not read is named in the report, or refused if there are no other labels.
"""

from __future__ import annotations

import os
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ptq.core.errors import DataError
from ptq.core.files import require_regular
from ptq.data.folder import SAMPLE_SUFFIXES, FolderListing
from ptq.data.labelling import Labelling
from ptq.data.labels.class_names import (
    CLASS_LIST,
    SORTED_ORDER,
    number_folders,
    parse_class_list,
    read_class_list,
    read_lines,
)
from ptq.data.labels.label_files import (
    TABLE_SUFFIXES,
    LabelFile,
    Labels,
    parse_label_file,
    split_line,
)

_READABLE = (".txt", *TABLE_SUFFIXES)
_NAMED_LABELS = tuple(f"labels{suffix}" for suffix in _READABLE)
_MAX_PROBED_BYTES = 2**16
_BOX_FOLDERS = frozenset(["annotations", "labels"])
"""Folders in which data sets of YOLO and COCO have their labels, beside those of the images."""


@dataclass(frozen=True)
class FolderLabels:
    """Labels of the images of a folder.

    Attributes:
        labels: Accepted classes of each labelled image, by relative path.
        classes: Names of the class folders, in label order.
        labelling: Where the labels come from.
    """

    labels: Labels
    classes: tuple[str, ...]
    labelling: Labelling


def find_labels(listing: FolderListing) -> FolderLabels:
    """Labels of the images of a folder.

    Raises:
        DataError: A file of labels is damaged, names an unknown class or image, or cannot be understood.
    """
    root, images, known = listing.root, frozenset(listing.files), listing.known
    inside = sorted({image.split("/")[0] for image in listing.files if "/" in image})
    has_boxes = not _BOX_FOLDERS.isdisjoint(set(listing.folders) - set(inside))
    folders = [] if has_boxes else inside
    listed, files = read_class_list(root), _list_files(root, images)
    named = [name for name in files if Path(name).stem.lower() == "labels"]
    readable = [n for suffix in _READABLE for n in named if Path(n).suffix.lower() == suffix]
    if len(readable) > 1:
        raise DataError(f"{root}: has both {' and '.join(readable)}; keep one")
    others = {name: _read_start(root / name) for name in files if name not in named}
    tables = [name for name, lines in others.items() if _is_table(name, lines, known)]
    doubtful = [
        name
        for name, lines in others.items()
        if name not in tables
        and (_names_image_below(lines, known) or (name.lower() == CLASS_LIST and listed is None))
    ]
    for name in readable:
        lines = read_lines(root / name)
        names = _class_numbers(listed, folders, root)
        found = parse_label_file(lines, root / name, known, names, images)
        if found is not None:
            return _from_file(
                name, found, listed, [n for n in [*named, *tables, *doubtful] if n != name]
            )
    if tables and len(folders) < 2:
        if len(tables) > 1:
            raise DataError(f"{root}: has {' and '.join(tables)}; keep one, or name one labels.csv")
        (name,) = tables
        names = _class_numbers(listed, folders, root)
        found = parse_label_file(read_lines(root / name), root / name, known, names, images)
        if found is None:
            raise DataError(
                f"{root / name}: names no image of the folder; give columns path and label, or remove the file"
            )
        return _from_file(name, found, listed, [*named, *doubtful])
    list_name = CLASS_LIST
    for name in readable if listed is None and folders else ():
        numbers = parse_class_list(read_lines(root / name), str(root / name))
        if set(folders) <= set(numbers):
            listed, list_name = numbers, name
    unread = [name for name in [*named, *tables, *doubtful] if name != list_name]
    if not inside and (damaged := [name for name in named if name not in readable]):
        raise DataError(
            f"{root / damaged[0]}: is not read as labels; write labels.csv with the columns path and label"
        )
    if has_boxes:
        return FolderLabels({}, (), Labelling("", notes=_unread_notes(unread)))
    return _from_folders(listing, folders, listed, list_name, unread)


def find_unused_label_files(root: Path) -> tuple[str, ...]:
    """Notes on files that look like labels, in a folder whose labels come from elsewhere."""
    files = _list_files(root)
    return _unread_notes(
        [n for n in files if Path(n).stem.lower() == "labels" or n.lower().endswith(TABLE_SUFFIXES)]
    )


def _from_file(
    name: str, found: LabelFile, listed: Mapping[str, int] | None, unread: Sequence[str]
) -> FolderLabels:
    source = name
    if found.names:
        source += f", names numbered by {'the class folders' if listed is None else CLASS_LIST}"
    notes = (*found.notes, *_unread_notes(unread))
    return FolderLabels(found.labels, (), Labelling(source, found.names, notes))


def _from_folders(
    listing: FolderListing,
    folders: Sequence[str],
    listed: Mapping[str, int] | None,
    list_name: str,
    unread: Sequence[str],
) -> FolderLabels:
    if not folders:
        return FolderLabels({}, _empty_classes(listing), Labelling("", notes=_unread_notes(unread)))
    every = [*listing.folders, *(f for f in folders if f not in listing.folders)]
    entries = _list_entries(listing.root)
    beside = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    found = number_folders(every, listed, listing.root / list_name, frozenset(folders), beside)
    numbers = found.classes
    classes = tuple(sorted(numbers, key=lambda name: numbers[name]))
    notes = (*_note_inner_folders(listing), *_unread_notes(unread))
    if len(folders) == 1 and found.source == SORTED_ORDER:
        notes = (*_note_single_folder(listing.root, folders[0]), *notes)
        return FolderLabels({}, classes, Labelling("", notes=notes))
    labels: Labels = {
        image: (numbers[image.split("/")[0]],) for image in listing.files if "/" in image
    }
    labelling = Labelling(found.source, numbers, (*found.notes, *notes))
    return FolderLabels(labels, classes, labelling)


def _note_single_folder(root: Path, name: str) -> tuple[str, ...]:
    """Notes on a folder that has all images in folders, and no number: it may be no class."""
    inside = _list_files(root / name) if (root / name).is_dir() else []
    labels = [file for file in inside if Path(file).stem.lower() == "labels"]
    return (
        f"folder {name} alone gives no labels; if it is a class, begin its name with the class number, or list all "
        f"classes in {CLASS_LIST}",
        *(f"{name}/{file} is not used; give folder {name} itself" for file in labels),
    )


def _note_inner_folders(listing: FolderListing) -> tuple[str, ...]:
    """A note if a class folder has several folders of images, which may be the classes that are meant."""
    inner: dict[str, set[str]] = {}
    for image in listing.files:
        outer, *rest = image.split("/")
        if len(rest) > 1:
            inner.setdefault(outer, set()).add(rest[0])
    several = sorted(name for name, folders in inner.items() if len(folders) > 1)
    if not several:
        return ()
    first = min(inner[several[0]])
    return (
        f"{several[0]}/{first} and other folders in class folders are no classes; if they should be, "
        f"give folder {several[0]} itself",
    )


def _empty_classes(listing: FolderListing) -> tuple[str, ...]:
    return tuple(sorted(listing.folders))


def _class_numbers(
    listed: Mapping[str, int] | None, folders: Sequence[str], root: Path
) -> Mapping[str, int]:
    """Class number by name, for names in a file of labels."""
    if listed is not None:
        return listed
    try:
        return number_folders(folders, None, root).classes if len(folders) > 1 else {}
    except DataError:  # folders that give no labels
        return {}


def _unread_notes(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        f"{name} is not used" + (f"; name it {CLASS_LIST}" if name.lower() == CLASS_LIST else "")
        for name in names
    )


def _list_entries(root: Path) -> list[os.DirEntry[str]]:
    """What a folder holds, sorted and without hidden files; raise DataError if it cannot be listed."""
    try:
        with os.scandir(root) as entries:
            found = [entry for entry in entries if not entry.name.startswith(".")]
    except OSError as error:
        raise DataError(f"{root}: cannot list the folder: {error.strerror}") from error
    return sorted(found, key=lambda entry: entry.name)


def _list_files(root: Path, samples: frozenset[str] = frozenset()) -> list[str]:
    """Files at the top that may hold labels, sorted; none of the samples.

    Raises:
        DataError: The folder cannot be listed, or a file named as labels is no regular file.
    """
    files = [entry.name for entry in _list_entries(root)]
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


def _names_image_below(lines: Sequence[str], images: Container[str]) -> bool:
    """Whether a text has an image behind comments and a header, as a list of labels may have them."""
    rows = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return any(split_line(line, images)[0] in images for line in rows[:2])
