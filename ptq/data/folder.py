"""What is in a folder of samples, and which labels do its sub-folders or its labels file give?

Hidden files and well-known sidecars are passed over. Links are followed, each folder once, real
folders before links to them, so loops end. Labels: a ``labels.txt`` or ``labels.csv`` at the top
with lines ``relative/path.png label[ label…]`` (blanks, commas or semicolons), else the top-level sub-folders:
their number where all names are integers, or all are ``number_text`` and count 0 … n − 1; else
their place in sorted order.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ptq.core.errors import DataError
from ptq.data.sample import parse_labels

_IMAGE_SUFFIXES = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".gif"),
    *(".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm"),
)
_SIDECARS = (
    *(".txt", ".csv", ".tsv", ".json", ".xml", ".yaml", ".yml", ".md", ".html", ".log"),
    *(".db", ".ini"),  # thumbnails and settings that file managers leave
)
_LABEL_FILES = ("labels.txt", "labels.csv")


@dataclass(frozen=True)
class FolderListing:
    """Files under a folder by their relative posix path, sorted, and its top-level sub-folders."""

    root: Path
    images: tuple[str, ...]
    archives: tuple[str, ...]
    folders: tuple[str, ...]


def list_folder(root: Path) -> FolderListing:
    """Everything under a folder that may be a sample: .npz, images, and files of unknown kind.

    Raises:
        DataError: A folder that cannot be listed, without samples, or with samples of both kinds.
    """
    files: list[str] = []
    top: list[str] = []
    seen: set[tuple[int, int]] = set()
    pending = [(root, "")]
    links: list[tuple[Path, str]] = []
    while pending or links:
        folder, prefix = pending.pop() if pending else links.pop()
        try:
            here = folder.stat()
            if (here.st_dev, here.st_ino) in seen:
                continue
            seen.add((here.st_dev, here.st_ino))
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda entry: entry.name, reverse=True)
        except OSError as error:
            raise DataError(f"{folder}: cannot list the folder: {error.strerror}") from error
        if "/" not in prefix.rstrip("/") and prefix:
            top.append(prefix.rstrip("/"))
        for entry in found:
            if entry.name.startswith(".") or entry.name == "__MACOSX" or _is_link_loop(entry):
                continue
            if entry.is_dir():
                queue = links if entry.is_symlink() else pending
                queue.append((folder / entry.name, f"{prefix}{entry.name}/"))
            else:
                files.append(prefix + entry.name)
    return _classify_files(root, files, top)


def _is_link_loop(entry: os.DirEntry[str]) -> bool:
    try:
        entry.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def _classify_files(root: Path, files: Sequence[str], top: Sequence[str]) -> FolderListing:
    by_suffix = [(Path(f).suffix.lower(), f) for f in sorted(files)]
    archives = tuple(f for suffix, f in by_suffix if suffix == ".npz")
    sure = any(suffix in _IMAGE_SUFFIXES for suffix, _ in by_suffix)
    if archives and sure:
        raise DataError(f"{root}: holds both images and .npz; give folders of one kind")
    if not archives and not sure and not any(suffix == "" for suffix, _ in by_suffix):
        found = ", ".join(sorted({suffix for suffix, _ in by_suffix})) or "nothing"
        raise DataError(
            f"{root}: no samples in this folder: neither image files nor .npz ({found} found)"
        )
    images = tuple(f for suffix, f in by_suffix if suffix not in _SIDECARS and suffix != ".npz")
    return FolderListing(root, () if archives else images, archives, tuple(sorted(top)))


def class_numbers(names: Sequence[str]) -> dict[str, int]:
    """The label of each class folder, by its number or else its place in sorted order."""
    names = sorted(names)
    plain = {n: int(n) for n in names if re.fullmatch(r"[0-9]{1,9}", n)}
    if len(plain) == len(names) and len(set(plain.values())) == len(names):
        return plain
    prefixed = {n: int(n.split("_")[0]) for n in names if re.match(r"[0-9]{1,9}_", n)}
    if sorted(prefixed.values()) == list(range(len(names))):
        return prefixed
    return {name: place for place, name in enumerate(names)}


def image_labels(listing: FolderListing) -> tuple[Mapping[str, tuple[int, ...]], tuple[str, ...]]:
    """Acceptable classes of each labelled image, and the class folders in label order.

    Raises:
        DataError: A labels file that is damaged, or names an image that is not there.
    """
    present = [name for name in _LABEL_FILES if (listing.root / name).is_file()]
    if len(present) == 2:
        raise DataError(f"{listing.root}: has both {' and '.join(present)}; keep one")
    for name in present:
        labels = _read_labels(listing.root / name, frozenset(listing.images))
        if labels is not None:
            return labels, ()
    numbers = class_numbers(listing.folders)
    return {
        image: (numbers[image.split("/")[0]],) for image in listing.images if "/" in image
    }, tuple(sorted(numbers, key=lambda name: numbers[name]))


def _read_labels(path: Path, images: frozenset[str]) -> dict[str, tuple[int, ...]] | None:
    """Labels by image; None where the file lists something else, such as the classes' names."""
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot read the labels: {error}") from error
    labels: dict[str, tuple[int, ...]] = {}
    other: list[int] = []
    for number, line in enumerate(lines, start=1):
        where = f"{path} line {number}"
        name, classes = _split_line(line)
        if name not in images and _first_cell(line) in images:
            name, classes = _first_cell(line), []
        if Path(name).suffix.lower() not in _IMAGE_SUFFIXES and name not in images:
            other += [number] if name and labels else []
            continue
        if name not in images:
            raise DataError(f"{where}: image {name!r} is not in the folder")
        if name in labels or not classes:
            fault = "is listed twice" if name in labels else "has no label (an integer)"
            raise DataError(f"{where}: image {name!r} {fault}")
        labels[name] = parse_labels(classes, where)
    if other and labels:
        raise DataError(f"{path} line {other[0]}: names no image")
    return labels or None


def _split_line(line: str) -> tuple[str, list[int]]:
    rest = line.strip()
    classes: list[int] = []
    while match := re.search(r"[\s,;](-?[0-9]{1,9})$", rest):
        classes.insert(0, int(match.group(1)))
        rest = rest[: match.start()].rstrip(" \t,;")
    return _clean_path(rest), classes


def _first_cell(line: str) -> str:
    return _clean_path(re.split("[,;\t]", line)[0].strip())


def _clean_path(text: str) -> str:
    return text.strip('"').replace("\\", "/").removeprefix("./")
