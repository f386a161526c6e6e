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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ptq.core.errors import DataError
from ptq.data.folder import FolderListing, ListingPart
from ptq.data.labelling import Labelling
from ptq.data.labels.class_names import (
    CLASS_LIST,
    SORTED_ORDER,
    number_folders,
    parse_class_list,
    read_class_list,
    read_lines,
)
from ptq.data.labels.found_label_files import (
    FoundLabelFiles,
    find_label_files,
    list_entries,
    list_label_files,
    note_unread,
    read_label_file,
)
from ptq.data.labels.label_files import LabelFile, Labels, accept_labels
from ptq.data.labels.label_numbers import is_number

_SHARDS = "the shards"
"""Source of labels that shards hold beside their samples."""
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
    listed = read_class_list(root, folders)
    files = [
        find_label_files(
            part,
            part.samples if listing.parts else listing.known,
            has_class_list=listed is not None,
        )
        for part in parts
    ]
    numbers = _find_class_numbers(listed, () if listing.is_selection else folders, root)
    found: dict[Path, LabelFile] = {}
    if listing.labels:
        found[Path(_SHARDS)] = accept_labels(listing.labels, root, numbers, paths)
    for of_part in () if listing.labels else files:
        if (read := read_label_file(of_part, numbers, use_tables=len(folders) < 2)) is not None:
            found[of_part.part.folder / read[0]] = read[1]
    unread = {of.part.folder / name: name for of in files for name in of.names}
    if found:
        return _from_files(found, listed, [n for path, n in unread.items() if path not in found])
    lists: dict[Path, Mapping[str, int] | None] = {root / CLASS_LIST: listed}
    if listed is None and folders:
        lists = _find_class_lists(files, folders) or lists
    list_path, numbered = next(iter(lists.items()))
    notes = note_unread([name for path, name in unread.items() if path not in lists])
    damaged = [of.part.folder / n for of in files for n in of.named if n not in of.readable]
    if not inside and damaged:
        raise DataError(
            f"{damaged[0]}: is not read as labels; write labels.csv with the columns path and label"
        )
    if has_boxes:
        return FolderLabels({}, (), Labelling("", notes=notes))
    return _from_folders(listing, paths, folders, numbered, list_path, notes)


def _find_class_lists(
    files: Sequence[FoundLabelFiles], folders: Sequence[str]
) -> dict[Path, Mapping[str, int] | None]:
    """The files named as labels that list the class folders instead, with the number of each class.

    Raises:
        DataError: A list has a class twice, or those of two shards differ.
    """
    lists: dict[Path, Mapping[str, int] | None] = {}
    for path in (of_part.part.folder / name for of_part in files for name in of_part.readable):
        names = parse_class_list(read_lines(path), str(path), folders)
        if not set(folders) <= set(names):
            continue
        first = next(iter(lists), path)
        if lists.setdefault(first, names) != names:
            raise DataError(
                f"{path}: differs from {first}; give all shards the same list of classes"
            )
        lists[path] = names
    return lists


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
    notes = dict.fromkeys(note for of_file in found.values() for note in of_file.notes)
    return FolderLabels(labels, (), Labelling(source, names, (*notes, *note_unread(unread))))


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
        return FolderLabels({}, _list_empty_classes(listing), Labelling("", notes=tuple(notes)))
    entries = () if listing.parts else list_entries(listing.root)
    beside = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    # where a pattern selects folders, the others count too
    every = {*listing.folders, *folders, *(beside if listing.is_selection else ())}
    found = number_folders(sorted(every), listed, list_path, frozenset(folders), beside)
    numbers = found.classes
    classes = tuple(sorted(numbers, key=lambda name: numbers[name]))
    notes = (*_note_inner_folders(paths.values()), *notes)
    is_single = len(folders) == 1 and not (listing.is_selection and len(every) > 1)
    if is_single and found.source == SORTED_ORDER:
        notes = (*_note_single_folder(listing.root, folders[0]), *notes)
        return FolderLabels({}, classes, Labelling("", notes=notes))
    labels: Labels = {
        image: (numbers[path.split("/")[0]],) for image, path in paths.items() if "/" in path
    }
    return FolderLabels(labels, classes, Labelling(found.source, numbers, (*found.notes, *notes)))


def _note_single_folder(root: Path, name: str) -> tuple[str, ...]:
    """Notes on a folder that has all images in folders, and no number: it may be no class."""
    inside = list_label_files(root / name) if (root / name).is_dir() else []
    labels = [file for file in inside if Path(file).stem.lower() == "labels"]
    return (
        f"folder {name} alone gives no labels; if it is a class, name it by the class number, or list all "
        f"classes in {CLASS_LIST}",
        *(f"{name}/{file} is not used; give folder {name} itself" for file in labels),
    )


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


def _list_empty_classes(listing: FolderListing) -> tuple[str, ...]:
    return tuple(sorted(listing.folders))


def _find_class_numbers(
    listed: Mapping[str, int] | None, folders: Sequence[str], root: Path
) -> Mapping[str, int]:
    """Class number by name, for names in a file of labels; none by folders that a pattern selects.

    Folders of digits, such as the parts of a large data set, are no names: digits are class numbers without a list.
    """
    if listed is not None:
        return listed
    try:
        numbers = number_folders(folders, None, root).classes if len(folders) > 1 else {}
    except DataError:  # folders that give no labels
        return {}
    return {name: number for name, number in numbers.items() if not is_number(name)}
