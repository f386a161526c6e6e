"""Bases of the sources whose samples are arrays, and whose labels are with the samples."""

from __future__ import annotations

from dataclasses import replace

from ptq.data.labelling import WITH_SAMPLES, Labelling
from ptq.data.preparation import Preparation


class ArraySource:
    """Base of sources without class folders; samples are arrays unless a subclass says otherwise."""

    classes: tuple[str, ...] = ()

    @property
    def labelling(self) -> Labelling:
        """The labels are with the samples."""
        return WITH_SAMPLES

    @property
    def preprocess(self) -> Preparation | None:
        """None: arrays are not prepared."""
        return None


class IndexedSource(ArraySource):
    """Base of array sources that identify a sample by its index alone."""

    def __init__(self, title: str) -> None:
        """``title`` names the source in messages."""
        self._title = title
        self._label_notes: set[str] = set()

    @property
    def labelling(self) -> Labelling:
        """The labels are with the samples; notes say what was converted in those that were read."""
        return replace(WITH_SAMPLES, notes=tuple(sorted(self._label_notes)))

    def name(self, position: int) -> str:
        """The source and the index, e.g. ``data.npz[12]``."""
        return f"{self._title}[{position}]"

    def identity(self, position: int) -> str:
        """The index."""
        return str(position)
