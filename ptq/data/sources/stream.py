"""Items from Python as samples: from a callable that returns them, or an iterable that can be repeated."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ptq.core.errors import DataError, PtqError
from ptq.data.array_source import IndexedSource
from ptq.data.input_spec import InputSpec, cast_to_input
from ptq.data.labels.label_rows import LabelReader
from ptq.data.preprocessing.image_options import ImageOptions
from ptq.data.preprocessing.preprocess import Preprocess
from ptq.data.sample import BadSample, Sample
from ptq.data.sources.batch import Row
from ptq.data.sources.item import ItemParser

Feeds = Callable[[], Iterable[Any]]


class FeedStream(IndexedSource):
    """Items (see `ptq.data.sources.item`) from a callable. A batch is as many samples as it has rows.

    Counting the samples runs the callable once. The stream may be endless if only the first samples are used.

    Attributes:
        is_listed: Whether the items are in memory, so that counting them costs little.
    """

    def __init__(
        self,
        feeds: Feeds,
        inputs: Sequence[InputSpec],
        title: str,
        images: ImageOptions | None,
        *,
        is_listed: bool = False,
    ) -> None:
        """``feeds`` is called again for each pass. With ``images``, uint8 arrays are pixels of images."""
        super().__init__(title)
        self.is_listed = is_listed
        self._feeds = feeds
        self._inputs = inputs
        self._parser = ItemParser(inputs, images)
        self._label_reader = LabelReader(notes=self._label_notes)

    @property
    def preprocess(self) -> Preprocess | None:
        """The complete preprocessing once an item was an image; None for arrays."""
        return self._parser.preprocess

    def positions(self, at_most: int | None = None) -> range:
        """All positions, or the first ``at_most``, counted by one run of the callable."""
        return range(sum(1 for _ in itertools.islice(self._rows(), at_most)))

    def note_first(self, count: int) -> None:
        """Let the report say that only the first samples are used."""
        self._label_notes.add(
            f"samples {count}: the first ones, because a stream has no known length; give a list to spread them"
        )

    def highest_label(self, positions: Sequence[int] | None) -> int:
        """-1: labels are unknown before the samples are read."""
        return -1

    def read(self, positions: Iterable[int]) -> Iterator[Sample | BadSample]:
        """Run the callable and check its samples."""
        rows = self._rows()
        done = 0
        for position in positions:
            row = next(itertools.islice(rows, position - done, None), None)
            done = position + 1
            if row is None:
                return
            yield to_sample(row, self._inputs, self.name(position), self._label_reader)

    def _rows(self) -> Iterator[Row | DataError]:
        position = 0
        for item in self._items():
            rows: Sequence[Row | DataError]
            try:
                parsed = self._parser.parse_rows(item, self.name(position))
                labels = self._label_reader.read_batch(
                    [row[1] for row in parsed], self.name(position)
                )
                rows = [(row[0], label) for row, label in zip(parsed, labels, strict=True)]
            except DataError as error:
                rows = [error]
            position += len(rows)
            yield from rows

    def _items(self) -> Iterator[Any]:
        empty = True
        with _convert_errors(self._title):
            for item in call_feeds(self._feeds, self._title):
                empty = False
                yield item
        if empty:
            raise DataError(f"{self._title}: returns no samples")


def call_feeds(feeds: Feeds, title: str) -> Iterable[Any]:
    """What a callable returns.

    Raises:
        DataError: It fails, or returns what holds no items: a path, columns, or nothing.
    """
    with _convert_errors(title):
        found: Any = feeds()
    if isinstance(found, (str, bytes, os.PathLike, Mapping)) or found is None:
        raise DataError(
            f"{title}: returns an object of type {type(found).__name__}; "
            "let it return a list of items, or be a generator"
        )
    items: Iterable[Any] = found
    return items


@contextmanager
def _convert_errors(title: str) -> Iterator[None]:
    """Turn any exception of the user's code into a one-line message, and chain it."""
    try:
        yield
    except PtqError:
        raise
    except (Exception, SystemExit) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{title}: raised {type(error).__name__}: {reason}") from error


def to_sample(
    row: Row | DataError, inputs: Sequence[InputSpec], name: str, labels: LabelReader
) -> Sample | BadSample:
    """A row as a sample with the types of the model's inputs, or the reason why it is none."""
    try:
        if isinstance(row, DataError):
            raise row
        arrays, label = row
        feed = {spec.name: cast_to_input(spec, arrays[spec.name], name) for spec in inputs}
        return Sample(name, feed, labels.read(label, name))
    except DataError as error:
        return BadSample(name, error)
