"""Files in a folder of samples.

Hidden files and known sidecar files are ignored. Links are followed, each folder once and real folders before links
to them, so loops end.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ptq.core.errors import DataError

IMAGE_SUFFIXES = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".gif"),
    *(".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm"),
)
AUDIO_SUFFIXES = (".wav", ".wave")
SAMPLE_SUFFIXES = (*IMAGE_SUFFIXES, *AUDIO_SUFFIXES)
"""Suffixes of images and of audio."""
Kind = Literal["images", "audio", "text"]
_SIDECARS = (
    *(".txt", ".csv", ".tsv", ".json", ".xml", ".yaml", ".yml", ".md", ".html", ".log"),
    *(".db", ".ini"),  # thumbnails and settings of file managers
)


@dataclass(frozen=True)
class ListingPart:
    """A shard, whose files of labels name its samples as it does.

    Attributes:
        folder: The folder of its files of labels.
        samples: Samples of the listing by the paths that its files of labels give.
    """

    folder: Path
    samples: Mapping[str, str]


@dataclass(frozen=True)
class FolderListing:
    """Files and sub-folders of a folder; relative POSIX paths, sorted.

    Attributes:
        root: The folder.
        files: Images, WAV files or texts, and files of unknown kind.
        archives: .npz files. If there are any, ``files`` is empty.
        folders: Top-level sub-folders.
        kind: What ``files`` are.
        is_selection: Whether a pattern may leave out samples of the folder.
        parts: The shards that the files are from; empty if labels are found in ``root`` and by ``files`` alone.
        labels: Labels that shards hold beside the files: numbers, or a name.
    """

    root: Path
    files: tuple[str, ...]
    archives: tuple[str, ...]
    folders: tuple[str, ...]
    kind: Kind = "images"
    is_selection: bool = False
    parts: tuple[ListingPart, ...] = ()
    labels: Mapping[str, tuple[str | int, ...]] = field(default_factory=dict)

    @property
    def known(self) -> Container[str]:
        """The paths of the samples, also of those that a pattern leaves out."""
        return _WithLeftOut(self) if self.is_selection else frozenset(self.files)


class _WithLeftOut(Container[str]):
    """The samples of a listing, and all other files of their kinds in the folder."""

    def __init__(self, listing: FolderListing) -> None:
        self._root, self._files = listing.root, frozenset(listing.files)
        self._suffixes = {*SAMPLE_SUFFIXES, *(Path(f).suffix.lower() for f in listing.files)}

    def __contains__(self, name: object) -> bool:
        if name in self._files:
            return True
        path = Path(str(name))
        is_inside = not path.is_absolute() and ".." not in path.parts
        return (
            is_inside
            and path.suffix.lower() in self._suffixes
            and os.path.isfile(self._root / path)
        )


def list_folder(root: Path) -> FolderListing:
    """List the files under a folder that may be samples: .npz, images, WAV files, and files of unknown kind.

    Files .txt are samples if there are no others. Those that are named as labels or classes never are.

    Raises:
        DataError: A folder cannot be listed, or the folder has no samples or samples of two kinds.
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
            if is_hidden(entry.name) or _is_link_loop(entry):
                continue
            if entry.is_dir():
                queue = links if entry.is_symlink() else pending
                queue.append((folder / entry.name, f"{prefix}{entry.name}/"))
            else:
                files.append(prefix + entry.name)
    return classify_files(root, files, top)


def is_hidden(path: str) -> bool:
    """Whether a relative POSIX path is a hidden file, lies in a hidden folder, or in what macOS' archives add."""
    return any(
        (part.startswith(".") and part not in (".", "..")) or part == "__MACOSX"
        for part in path.split("/")
    )


def _is_link_loop(entry: os.DirEntry[str]) -> bool:
    try:
        entry.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def classify_files(root: Path, files: Sequence[str], top: Sequence[str]) -> FolderListing:
    """The samples among files.

    Args:
        root: Their folder.
        files: Relative POSIX paths.
        top: The sub-folders at the top.

    Raises:
        DataError: There are no samples, or samples of two kinds.
    """
    by_suffix = [(Path(f).suffix.lower(), f) for f in sorted(files)]
    archives = tuple(f for suffix, f in by_suffix if suffix == ".npz")
    has_images = any(suffix in IMAGE_SUFFIXES for suffix, _ in by_suffix)
    has_audio = any(suffix in AUDIO_SUFFIXES for suffix, _ in by_suffix)
    folders = tuple(sorted(top))
    if len(kinds := _name_kinds(bool(archives), has_images, has_audio)) > 1:
        raise DataError(f"{root}: contains both {' and '.join(kinds)}; give a folder of one kind")
    if archives:
        return FolderListing(root, (), archives, folders)
    samples = pick_samples(f for _, f in by_suffix)
    if not kinds and not any(suffix == "" for suffix, _ in by_suffix):
        if samples and all(suffix in _SIDECARS for suffix, _ in by_suffix):
            return FolderListing(root, samples, (), folders, "text")
        found = ", ".join(sorted({suffix for suffix, _ in by_suffix})) or "nothing"
        raise DataError(
            f"{root}: no samples in this folder: neither image files nor .npz, WAV or .txt ({found} found)"
        )
    return FolderListing(root, samples, (), folders, "audio" if has_audio else "images")


def pick_samples(files: Iterable[str]) -> tuple[str, ...]:
    """The files that may be samples: those that are no sidecar files, else texts that do not list labels."""
    by_suffix = [(Path(file).suffix.lower(), file) for file in files]
    found = tuple(file for suffix, file in by_suffix if suffix not in _SIDECARS)
    return found or tuple(
        file for suffix, file in by_suffix if suffix == ".txt" and not is_label_file(file)
    )


def _name_kinds(archives: bool, images: bool, audio: bool) -> list[str]:
    """The kinds of files that are there, in words."""
    there = {"images": images, ".npz": archives, "WAV files": audio}
    return [name for name, is_there in there.items() if is_there]


def is_label_file(file: str) -> bool:
    """Whether a .txt lists labels or class names: ``labels.txt`` and ``classes.txt`` at the top."""
    return file.lower() in ("labels.txt", "classes.txt")
