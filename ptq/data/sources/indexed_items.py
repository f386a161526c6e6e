"""Items that Python gives by index as samples: a dataset, a list of images, a frame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ptq.core.errors import DataError, PtqError
from ptq.data.array_source import IndexedSource
from ptq.data.input_spec import InputSpec
from ptq.data.labels.label_rows import LabelReader
from ptq.data.preprocessing.image_options import ImageOptions
from ptq.data.preprocessing.preprocess import Preprocess
from ptq.data.sample import BadSample, Sample
from ptq.data.sample_store import copy_sample
from ptq.data.sources.item import ItemParser
from ptq.data.sources.stream import to_sample

_MAX_BAD = 16
"""Bad items at the start after which all are taken for bad."""
ItemGetter = Callable[[int], Any]


class IndexedItems(IndexedSource):
    """Items by index, one sample each. Only the items that are used are read.

    Attributes:
        rows_of_first: Number of rows of the first item that can be read.
    """

    def __init__(
        self,
        get_item: ItemGetter,
        count: int,
        inputs: Sequence[InputSpec],
        title: str,
        images: ImageOptions | None = None,
    ) -> None:
        """Read the first item; raise DataError if there is none, or if the first ones do not fit."""
        super().__init__(title)
        self._get_item = get_item
        self._count = count
        self._inputs = inputs
        self._parser = ItemParser(inputs, images)
        self._label_reader = LabelReader(notes=self._label_notes)
        self._digests: dict[int, bytes] = {}
        if count < 1:
            raise DataError(f"{title}: contains no samples")
        self.rows_of_first = self._count_rows_of_first()

    def _count_rows_of_first(self) -> int:
        """The rows of the first item that can be read; a few bad ones before it may be left out later."""
        errors = []
        for position in range(min(self._count, _MAX_BAD)):
            try:
                return len(self._parser.parse_rows(self._fetch(position), self.name(position)))
            except DataError as error:
                errors.append(error)
        raise errors[0]

    @property
    def preprocess(self) -> Preprocess | None:
        """The complete preprocessing if items are images; None for arrays."""
        return self._parser.preprocess

    def positions(self, at_most: int | None = None) -> range:
        """All positions, or the first ``at_most``."""
        return range(self._count)[:at_most]

    def highest_label(self, positions: Sequence[int] | None) -> int:
        """-1: labels are unknown before the samples are read."""
        return -1

    def read(self, positions: Iterable[int]) -> Iterator[Sample | BadSample]:
        """Get and check the items one by one.

        Raises:
            DataError: An item is not the same as on an earlier pass.
        """
        for position in positions:
            name = self.name(position)
            # a dataset may write the next item into the same array
            sample = copy_sample(self._read_sample(position, name))
            if isinstance(sample, Sample):
                self._require_same(position, sample)
            yield sample

    def _require_same(self, position: int, sample: Sample) -> None:
        if self._digests.setdefault(position, sample.digest) != sample.digest:
            raise DataError(
                f"{sample.name}: is not the same as on the first reading; switch off random augmentation"
            )

    def _read_sample(self, position: int, name: str) -> Sample | BadSample:
        try:
            rows = self._parser.parse_rows(self._fetch(position), name)
        except DataError as error:
            return BadSample(name, error)
        if len(rows) != 1:
            mixed = DataError(
                f"{name}: has {len(rows)} rows, but the first item has one; give items of one sample each"
            )
            return BadSample(name, mixed)
        return to_sample(rows[0], self._inputs, name, self._label_reader)

    def _fetch(self, position: int) -> Any:
        try:
            return self._get_item(position)
        except PtqError:
            raise
        # The dataset is the user's code: any exception becomes a one-line message and is chained.
        except Exception as error:
            reason = " ".join(str(error).split())
            raise DataError(
                f"{self.name(position)}: raised {type(error).__name__}: {reason}"
            ) from error
