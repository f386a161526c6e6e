"""An array of uint8 pixels as a table of prepared images: the rows are prepared as images of a folder are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UsageError
from ptq.data.formats.arrays import ArrayHeader, Table
from ptq.data.formats.image_reader import ImageReader
from ptq.data.input_spec import InputSpec
from ptq.data.preprocessing.preprocess import Preprocess


class ImageTable:
    """A table whose only array holds images; further columns such as labels are unchanged.

    Attributes:
        preprocess: The complete preprocessing.
    """

    def __init__(
        self, table: Table, inputs: Sequence[InputSpec], title: str, preprocess: Preprocess
    ) -> None:
        """Prepare the first image; raise UsageError if the array does not hold pixels."""
        keys = [key for key in table.headers if key != "labels"]
        if len(inputs) != 1 or len(keys) != 1:
            raise UsageError(
                f"{title}: preprocessing options apply to a model with one input and one array of images"
            )
        self._key = keys[0]
        self._table = table
        self._title = title
        header = table.headers[self._key]
        if header.dtype != np.uint8 or len(header.shape) not in (3, 4) or 0 in header.shape:
            raise UsageError(
                f"{title}: preprocessing options apply only to images: a folder, paths, Pillow images, or uint8 "
                f"pixels of shape [samples, height, width, channels]; array {self._key!r} is {header.dtype} of shape "
                f"{list(header.shape)}, and such arrays are fed unchanged"
            )
        self._reader = ImageReader(inputs[0], preprocess)
        self.preprocess = self._reader.preprocess
        ((_, first),) = self.read_samples([self._key], [0])
        prepared = first[self._key]
        self._headers = {
            **table.headers,
            self._key: ArrayHeader((header.shape[0], *prepared.shape), prepared.dtype, False, 0),
        }

    @property
    def headers(self) -> Mapping[str, ArrayHeader]:
        """Shape and type of each array, of the images as prepared."""
        return self._headers

    @property
    def finds_rows(self) -> bool:
        """Whether a row is found without reading those before it."""
        return self._table.finds_rows

    def read_all(self, key: str) -> NDArray[Any]:
        """One whole array, unprepared."""
        return self._table.read_all(key)

    def read_samples(
        self, keys: Sequence[str], positions: Iterable[int]
    ) -> Iterator[tuple[int, dict[str, NDArray[Any]]]]:
        """Rows at ascending positions, images prepared and without a batch axis."""
        for position, row in self._table.read_samples(keys, positions):
            array = self._reader.read(row[self._key], f"{self._title}[{position}]")
            image = array[0] if self._reader.has_batch_axis else array
            yield position, {**row, self._key: image}
