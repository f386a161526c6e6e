"""Labels of a folder of images, from a file in it or from its class folders.

Labels come from the first of these sources:

1. A ``labels.txt``, ``labels.csv`` or ``labels.tsv`` that lists images.
2. Another table or list of images (``*.csv``, ``*.tsv``, ``*.txt``), if there are not two or more class folders.
3. The names of the class folders, the top-level ones (see `ptq.data.labels.class_names`). Beside a folder without
   samples that is named ``labels`` or ``annotations``, as data sets of boxes have it, sub-folders are no classes.

A file that looks like labels and is not read is named in the report, or refused if there are no other labels.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ptq.core.errors import DataError
from ptq.core.files import require_regular
from ptq.data.folder import SAMPLE_SUFFIXES, FolderListing, ListingPart
from ptq.data.labelling import Labelling
from ptq.data.labels.class_names import (
    CLASS_LIST,
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
        classes: Names of the class folders that give labels, in label order.
        labelling: Where the labels come from.
    """

    labels: Labels
    classes: tuple[str, ...]
    labelling: Labelling


@dataclass(frozen=True)
class _PartFiles:
    """Files of a folder, or of a shard, that may hold labels.

    Attributes:
        part: The folder or shard.
        named: Those that are named ``labels``.
        readable: Those of ``named`` that can be read.
        tables: Other tables and lists of samples.
    """

    part: ListingPart
    named: Sequence[str]
    readable: Sequence[str]
    tables: Sequence[str]

    @property
    def names(self) -> list[str]:
        """All of them."""
        return [*self.named, *self.tables]


def find_labels(listing: FolderListing) -> FolderLabels:
    """Labels of the images of a folder.

    Raises:
        DataError: A file of labels is damaged, names an unknown class or image, or cannot be understood.
    """
    root = listing.root
    parts = listing.parts or (ListingPart(root, {name: name for name in listing.files}),)
    different = {id(part.samples): part.samples for part in parts}  # shards may share their samples
    paths = {name: path for samples in different.values() for path, name in samples.items()}
    inside = sorted({path.split("/")[0] for path in paths.values() if "/" in path})
    has_boxes = not _BOX_FOLDERS.isdisjoint(set(listing.folders) - set(inside))
    folders = [] if has_boxes else inside
    listed = read_class_list(root)
    files = [_find_files(part) for part in parts]
    numbers = _class_numbers(listed, folders, root)
    found = {}
    for of_part in files:
        if (read := _read_file(of_part, numbers, use_tables=len(folders) < 2)) is not None:
            found[of_part.part.folder / read[0]] = read[1]
    unread = {of.part.folder / name: name for of in files for name in of.names}
    if found:
        return _from_files(found, listed, [n for path, n in unread.items() if path not in found])
    lists: dict[Path, Mapping[str, int] | None] = {root / CLASS_LIST: listed}
    if listed is None and folders:
        lists = _find_class_lists(files, folders) or lists
    list_path, numbered = next(iter(lists.items()))
    notes = _unread_notes([name for path, name in unread.items() if path not in lists])
    damaged = [of.part.folder / n for of in files for n in of.named if n not in of.readable]
    if not inside and damaged:
        raise DataError(
            f"{damaged[0]}: is not read as labels; write labels.csv with the columns path and label"
        )
    if has_boxes:
        return FolderLabels({}, (), Labelling("", notes=notes))
    return _from_folders(listing, paths, folders, numbered, list_path, notes)


def _find_class_lists(
    files: Sequence[_PartFiles], folders: Sequence[str]
) -> dict[Path, Mapping[str, int] | None]:
    """The files named as labels that list the class folders instead, with the number of each class.

    Raises:
        DataError: A list has a class twice, or those of two shards differ.
    """
    lists: dict[Path, Mapping[str, int] | None] = {}
    for path in (of_part.part.folder / name for of_part in files for name in of_part.readable):
        names = parse_class_list(read_lines(path), str(path))
        if not set(folders) <= set(names):
            continue
        first = next(iter(lists), path)
        if lists.setdefault(first, names) != names:
            raise DataError(
                f"{path}: differs from {first}; give all shards the same list of classes"
            )
        lists[path] = names
    return lists


def _find_files(part: ListingPart) -> _PartFiles:
    files = _list_files(part.folder, part.samples)
    named = [name for name in files if Path(name).stem.lower() == "labels"]
    readable = [n for suffix in _READABLE for n in named if Path(n).suffix.lower() == suffix]
    if len(readable) > 1:
        raise DataError(f"{part.folder}: has both {' and '.join(readable)}; keep one")
    others = [n for n in files if n not in named and _is_table(part.folder / n, part.samples)]
    return _PartFiles(part, named, readable, others)


def _read_file(
    files: _PartFiles, numbers: Mapping[str, int], *, use_tables: bool
) -> tuple[str, LabelFile] | None:
    """The file of labels of a folder or shard, by its name, with samples as in the listing; None without one."""
    folder, samples = files.part.folder, files.part.samples
    named = [*files.readable, *(files.tables if use_tables else ())]
    for name in named:
        if name in files.tables and len(files.tables) > 1:
            raise DataError(
                f"{folder}: has {' and '.join(files.tables)}; keep one, or name one labels.csv"
            )
        path = folder / name
        found = parse_label_file(read_lines(path), path, samples, numbers)
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
    files = _list_files(root)
    return _unread_notes(
        [n for n in files if Path(n).stem.lower() == "labels" or n.lower().endswith(TABLE_SUFFIXES)]
    )


def _from_files(
    found: Mapping[Path, LabelFile], listed: Mapping[str, int] | None, unread: Sequence[str]
) -> FolderLabels:
    """The labels of the files of one folder, or of all shards.

    Raises:
        DataError: Two files give one sample other labels.
    """
    labels: Labels = {}
    for path, of_file in found.items():
        for image, accepted in of_file.labels.items():
            if labels.setdefault(image, accepted) != accepted:
                raise DataError(
                    f"{path}: gives image {image!r} another label than the file of another shard; correct one"
                )
    names = {name: number for of_file in found.values() for name, number in of_file.names.items()}
    source = " and ".join(dict.fromkeys(path.name for path in found))
    if names:
        source += f", names numbered by {'the class folders' if listed is None else CLASS_LIST}"
    return FolderLabels(labels, (), Labelling(source, names, _unread_notes(unread)))


def _from_folders(
    listing: FolderListing,
    paths: Mapping[str, str],
    folders: Sequence[str],
    listed: Mapping[str, int] | None,
    list_path: Path,
    notes: Sequence[str],
) -> FolderLabels:
    """The labels that class folders give; ``paths`` are those of samples in their shards."""
    if not folders:
        return FolderLabels({}, _empty_classes(listing), Labelling("", notes=tuple(notes)))
    every = [*listing.folders, *(f for f in folders if f not in listing.folders)]
    numbers, source = number_folders(every, listed, list_path, required=frozenset(folders))
    labels: Labels = {
        image: (numbers[path.split("/")[0]],) for image, path in paths.items() if "/" in path
    }
    classes = tuple(sorted(numbers, key=lambda name: numbers[name]))
    notes = (*_note_inner_folders(paths.values()), *notes)
    return FolderLabels(labels, classes, Labelling(source, numbers, notes))


def _note_inner_folders(paths: Iterable[str]) -> tuple[str, ...]:
    """A note if a class folder has several folders of images, which may be the classes that are meant."""
    inner: dict[str, set[str]] = {}
    for path in paths:
        outer, *rest = path.split("/")
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
        return number_folders(folders, None, root)[0] if len(folders) > 1 else {}
    except DataError:  # folders that give no labels
        return {}


def _unread_notes(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{name} is not used" for name in dict.fromkeys(names))


def _list_files(root: Path, samples: Collection[str] = ()) -> list[str]:
    """Files at the top that may hold labels, sorted; none of the samples.

    Raises:
        DataError: The folder cannot be listed, or a file named as labels is no regular file.
    """
    try:
        files = sorted(name for name in os.listdir(root) if not name.startswith("."))
    except OSError as error:
        raise DataError(f"{root}: cannot list the folder: {error.strerror}") from error
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


def _is_table(path: Path, images: Collection[str]) -> bool:
    """Whether a file is a table, or a text whose first line names an image of the folder."""
    if path.suffix.lower() in TABLE_SUFFIXES:
        return True
    try:
        with path.open("rb") as stream:
            start = stream.read(_MAX_PROBED_BYTES).decode("utf-8-sig", "replace")
    except OSError as error:
        raise DataError(f"{path}: cannot read the file: {error.strerror}") from error
    lines = start.splitlines()
    return bool(lines) and split_line(lines[0], images)[0] in images
