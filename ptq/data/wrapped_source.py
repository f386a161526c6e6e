"""A source of samples that reads another one in its own way; all else is that of the other."""

from __future__ import annotations

from collections.abc import Sequence

from ptq.data.labelling import Labelling
from ptq.data.preparation import Preparation
from ptq.data.sample import SampleSource


class WrappedSource:
    """What a source says without reading samples; see `ptq.data.sample.SampleSource`."""

    def __init__(self, source: SampleSource) -> None:
        """Take the other source."""
        self._source = source

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the class folders, in label order."""
        return self._source.classes

    @property
    def preprocess(self) -> Preparation | None:
        """The preprocessing of each image, WAV file or text."""
        return self._source.preprocess

    @property
    def labelling(self) -> Labelling:
        """Where the labels come from."""
        return self._source.labelling

    def positions(self, at_most: int | None = None) -> range:
        """All positions, or the first ``at_most``."""
        return self._source.positions(at_most)

    def name(self, position: int) -> str:
        """Name of the sample in messages."""
        return self._source.name(position)

    def identity(self, position: int) -> str:
        """Text that stays the same if samples are added."""
        return self._source.identity(position)

    def highest_label(self, positions: Sequence[int] | None) -> int:
        """Highest label that is known without reading samples."""
        return self._source.highest_label(positions)
