"""Files in a folder of samples, and their labels.

Hidden files and known sidecar files are ignored. Links are followed, each folder once and real folders before links
to them, so loops end.

Labels come from the first of these sources:

1. A ``labels.txt`` or ``labels.csv`` at the top, with lines ``relative/path.png label[ label…]``, separated by
   blanks, commas or semicolons.
2. The names of the top-level sub-folders, if all are integers.
3. Their leading numbers, if all names are ``number_text`` and the numbers are 0 … n − 1.
4. The position of the sub-folder in sorted order.
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
    *(".db", ".ini"),  # thumbnails and settings of file managers
)
_LABEL_FILES = ("labels.txt", "labels.csv")


@dataclass(frozen=True)
class FolderListing:
    """Files and sub-folders of a folder; relative POSIX paths, sorted.

    Attributes:
        root: The folder.
        images: Images, and files of unknown kind.
        archives: .npz files. If there are any, ``images`` is empty.
        folders: Top-level sub-folders.
    """

    root: Path
    images: tuple[str, ...]
    archives: tuple[str, ...]
    folders: tuple[str, ...]


def list_folder(root: Path) -> FolderListing:
    """List the files under a folder that may be samples: .npz, images, and files of unknown kind.

    Raises:
        DataError: A folder cannot be listed, or the folder has no samples or samples of both kinds.
    """
    files: list[str] = []
    top: list[str] = []
    visited: set[tuple[int, int]] = set()
    pending = [(root, "")]
    links: list[tuple[Path, str]] = []
    while pending or links:
        folder, prefix = pending.pop() if pending else links.pop()
        try:
            status = folder.stat()
            if (status.st_dev, status.st_ino) in visited:
                continue
            visited.add((status.st_dev, status.st_ino))
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
    has_images = any(suffix in _IMAGE_SUFFIXES for suffix, _ in by_suffix)
    if archives and has_images:
        raise DataError(f"{root}: contains both images and .npz; give a folder of one kind")
    if not archives and not has_images and not any(suffix == "" for suffix, _ in by_suffix):
        found = ", ".join(sorted({suffix for suffix, _ in by_suffix})) or "nothing"
        raise DataError(
            f"{root}: no samples in this folder: neither image files nor .npz ({found} found)"
        )
    images = tuple(f for suffix, f in by_suffix if suffix not in _SIDECARS and suffix != ".npz")
    return FolderListing(root, () if archives else images, archives, tuple(sorted(top)))


def class_numbers(names: Sequence[str]) -> dict[str, int]:
    """Label of each class folder: its number, or else its position in sorted order."""
    names = sorted(names)
    numbers = {n: int(n) for n in names if re.fullmatch(r"[0-9]{1,9}", n)}
    if len(numbers) == len(names) and len(set(numbers.values())) == len(names):
        return numbers
    prefixed = {n: int(n.split("_")[0]) for n in names if re.match(r"[0-9]{1,9}_", n)}
    if sorted(prefixed.values()) == list(range(len(names))):
        return prefixed
    return {name: position for position, name in enumerate(names)}


def image_labels(listing: FolderListing) -> tuple[Mapping[str, tuple[int, ...]], tuple[str, ...]]:
    """Acceptable classes of each labelled image, and the class folders in label order.

    Raises:
        DataError: The labels file is damaged, or names an image that is not in the folder.
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
    """Labels by image; None if the file does not list images but, for example, class names."""
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot read the labels: {error}") from error
    labels: dict[str, tuple[int, ...]] = {}
    without_image: list[int] = []
    for number, line in enumerate(lines, start=1):
        where = f"{path} line {number}"
        name, classes = _split_line(line)
        if name not in images and _first_cell(line) in images:
            name, classes = _first_cell(line), []
        if Path(name).suffix.lower() not in _IMAGE_SUFFIXES and name not in images:
            without_image += [number] if name and labels else []
            continue
        if name not in images:
            raise DataError(f"{where}: image {name!r} is not in the folder")
        if name in labels or not classes:
            fault = "is listed twice" if name in labels else "has no label (an integer)"
            raise DataError(f"{where}: image {name!r} {fault}")
        labels[name] = parse_labels(classes, where)
    if without_image and labels:
        raise DataError(f"{path} line {without_image[0]}: does not name an image")
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
