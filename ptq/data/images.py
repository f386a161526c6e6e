"""A folder of images as samples; each file is one sample."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ptq.core.errors import DataError
from ptq.data.folder import FolderListing
from ptq.data.folder_labels import find_labels
from ptq.data.image_reader import ImageReader
from ptq.data.input_spec import InputSpec
from ptq.data.labelling import Labelling
from ptq.data.preprocess import Preprocess
from ptq.data.sample import BadSample, Sample


class ImageFolder:
    """The images of a folder, decoded one at a time."""

    def __init__(
        self, listing: FolderListing, inputs: Sequence[InputSpec], preprocess: Preprocess
    ) -> None:
        """Raise DataError or UsageError if the model's inputs do not take images."""
        if len(inputs) != 1:
            names = ", ".join(repr(spec.name) for spec in inputs) or "none"
            raise DataError(
                f"{listing.root}: images feed one input, but the model's inputs are {names}; give .npz"
            )
        self._spec = inputs[0]
        self._listing = listing
        self._found = find_labels(listing)
        self._labels = self._found.labels
        self._reader = ImageReader(self._spec, preprocess)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the class folders, in label order."""
        return self._found.classes

    @property
    def labelling(self) -> Labelling:
        """Where the labels come from, and the class of each folder."""
        return self._found.labelling

    @property
    def preprocess(self) -> Preprocess:
        """The preprocessing of each image."""
        return self._reader.preprocess

    def positions(self, at_most: int | None = None) -> range:
        """All positions, or the first ``at_most``."""
        return range(len(self._listing.images))[:at_most]

    def name(self, position: int) -> str:
        """The image's path relative to the folder."""
        return self._listing.images[position]

    identity = name

    def highest_label(self, positions: Sequence[int] | None) -> int:
        """Highest label of the images; -1 if none is labelled."""
        selected = self.positions() if positions is None else positions
        return max((n for p in selected for n in self._labels.get(self.name(p), ())), default=-1)

    def read(self, positions: Iterable[int]) -> Iterator[Sample | BadSample]:
        """Decode and preprocess the images one by one."""
        for position in positions:
            name = self.name(position)
            try:
                yield self._read_sample(name, self._listing.root / name)
            except DataError as error:
                yield BadSample(name, error)

    def _read_sample(self, name: str, path: Path) -> Sample:
        array = self._reader.read(path, str(path))
        return Sample(name, {self._spec.name: array}, self._labels.get(name, ()))
