"""A folder of images as samples; each file is one sample."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ptq.core.errors import DataError
from ptq.data.folder import FolderListing
from ptq.data.formats.image_reader import ImageReader
from ptq.data.input_spec import InputSpec, explain_left_constants
from ptq.data.labelled_folder import LabelledFolder
from ptq.data.preprocessing.preprocess import Preprocess


class ImageFolder(LabelledFolder):
    """The images of a folder, decoded one at a time."""

    def __init__(
        self, listing: FolderListing, inputs: Sequence[InputSpec], preprocess: Preprocess
    ) -> None:
        """Raise DataError or UsageError if the model's inputs do not take images."""
        if len(inputs) != 1:
            names = ", ".join(repr(spec.name) for spec in inputs) or "none"
            advice = explain_left_constants(inputs) or "give .npz"
            raise DataError(
                f"{listing.root}: images feed one input, but the model's inputs are {names}; {advice}"
            )
        super().__init__(listing)
        self._spec = inputs[0]
        self._reader = ImageReader(self._spec, preprocess)

    @property
    def preprocess(self) -> Preprocess:
        """The preprocessing of each image."""
        return self._reader.preprocess

    def _read_feed(self, path: Path) -> dict[str, NDArray[Any]]:
        return {self._spec.name: self._reader.read(path, str(path))}
