"""A folder of files as samples: each file is one sample, and a labels file or class folders give the labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ptq.core.errors import DataError
from ptq.data.folder import FolderListing
from ptq.data.labelling import Labelling
from ptq.data.labels.folder_labels import find_labels
from ptq.data.preparation import Preparation
from ptq.data.sample import BadSample, Sample


class LabelledFolder:
    """The files of a folder, read one at a time. A subclass says how a file becomes a feed."""

    def __init__(self, listing: FolderListing) -> None:
        """Find the labels; raise DataError if they cannot be understood."""
        self._listing = listing
        self._found = find_labels(listing)
        self._labels = self._found.labels

    @property
    def folder(self) -> Path:
        """The folder."""
        return self._listing.root

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the class folders, in label order."""
        return self._found.classes

    @property
    def labelling(self) -> Labelling:
        """Where the labels come from, and the class of each folder."""
        return self._found.labelling

    @property
    def preprocess(self) -> Preparation:
        """The preprocessing of each file."""
        raise NotImplementedError

    def positions(self, at_most: int | None = None) -> range:
        """All positions, or the first ``at_most``."""
        return range(len(self._listing.files))[:at_most]

    def name(self, position: int) -> str:
        """The file's path relative to the folder."""
        return self._listing.files[position]

    identity = name

    def highest_label(self, positions: Sequence[int] | None) -> int:
        """Highest label of the files; -1 if none is labelled."""
        selected = self.positions() if positions is None else positions
        return max((n for p in selected for n in self._labels.get(self.name(p), ())), default=-1)

    def read(self, positions: Iterable[int]) -> Iterator[Sample | BadSample]:
        """Read and preprocess the files one by one."""
        for position in positions:
            name = self.name(position)
            try:
                feed = self._read_feed(self._listing.root / name)
                yield Sample(name, feed, self._labels.get(name, ()))
            except DataError as error:
                yield BadSample(name, error)

    def _read_feed(self, path: Path) -> dict[str, NDArray[Any]]:
        raise NotImplementedError
