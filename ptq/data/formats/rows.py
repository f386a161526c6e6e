"""Arrays as samples: rows of a table, or .npz files of a folder with one feed each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ptq.core.errors import DataError
from ptq.core.wording import OPEN_BATCH
from ptq.data.array_source import ArraySource, IndexedSource
from ptq.data.folder import FolderListing
from ptq.data.formats.arrays import Table, open_npz, read_array
from ptq.data.input_spec import InputSpec, cast_to_input, check_header, match_keys
from ptq.data.labelling import WITH_SAMPLES, Labelling
from ptq.data.labels.class_names import CLASS_LIST
from ptq.data.labels.found_label_files import find_unused_label_files
from ptq.data.labels.label_rows import (
    ONE_HOT_CONVERTED,
    LabelReader,
    convert_one_hot,
    list_unique_classes,
)
from ptq.data.preprocessing.preprocess import Preprocess
from ptq.data.sample import BadSample, Sample


class TableSource(IndexedSource):
    """Arrays by input name whose leading axis counts the samples.

    If input and array have the same rank, the input gets a row with a batch axis of 1. If the input has one axis
    less, it gets the row itself.
    """

    def __init__(
        self,
        table: Table,
        inputs: Sequence[InputSpec],
        title: str,
        preprocess: Preprocess | None = None,
        folder: Path | None = None,
    ) -> None:
        """Check names, shapes, types and labels before any row is read; raise DataError if one does not fit.

        ``preprocess`` is what the table applies to images; None if its rows are fed unchanged. ``folder`` is that of
        the file; None for arrays in memory.
        """
        super().__init__(title)
        self._preprocess = preprocess
        self._table = table
        self._inputs = inputs
        headers = table.headers
        self._keys, labels = match_keys(list(headers), inputs, title)
        if not inputs:
            raise DataError(f"{title}: the model has no inputs, so it cannot be calibrated")
        self._batched: dict[str, bool] = {}
        for spec in inputs:
            header = headers[self._keys[spec.name]]
            where = f"{title} array {self._keys[spec.name]!r}"
            if not header.shape or not header.shape[0]:
                raise DataError(f"{where}: contains no samples: its shape is {list(header.shape)}")
            batched = len(header.shape) == len(spec.shape)
            if batched and spec.shape[0] not in (1, None):
                raise DataError(
                    f"{where}: the model takes {spec}, {spec.shape[0]} rows at once, so one row is "
                    f"not a sample; {OPEN_BATCH}, or give a folder of .npz with one feed each"
                )
            if header.shape == spec.shape[1:]:
                raise DataError(
                    f"{where}: its shape {list(header.shape)} is that of one sample; save N samples as an array of "
                    f"shape [N, {', '.join(map(str, header.shape))}]"
                )
            row = (1, *header.shape[1:]) if batched else header.shape[1:]
            check_header(spec, row, header.dtype, f"{where} (its leading axis counts the samples)")
            self._batched[spec.name] = batched
        lengths = {self._keys[s.name]: headers[self._keys[s.name]].shape[0] for s in inputs}
        if labels is not None:
            lengths[labels] = (headers[labels].shape or (0,))[0]
        self._count = next(iter(lengths.values()))
        for key, length in lengths.items():
            if length != self._count:
                raise DataError(
                    f"{title}: arrays differ in length: {next(iter(lengths))!r} has {self._count} "
                    f"samples, {key!r} has {length}"
                )
        self._labels = None if labels is None else table.read_all(labels)
        self._labelling = WITH_SAMPLES
        if self._labels is not None:
            if self._labels.ndim > 2:
                raise DataError(f"{title}: 'labels' has {self._labels.ndim} dimensions, not 1 or 2")
            where, reader = f"{title} array 'labels'", LabelReader(folder)
            numbers, converted = convert_one_hot(self._labels, where)
            self._labels = reader.to_numbers(numbers, where, math.prod(numbers.shape[1:]))
            notes = (ONE_HOT_CONVERTED,) if converted else ()
            numbered = f", names numbered by {CLASS_LIST}" if reader.names else ""
            self._labelling = Labelling(where + numbered, reader.names, notes)

    @property
    def finds_rows(self) -> bool:
        """Whether a row is found without reading those before it."""
        return self._table.finds_rows

    @property
    def labelling(self) -> Labelling:
        """The array of the labels, and what was converted."""
        return self._labelling

    @property
    def preprocess(self) -> Preprocess | None:
        """The complete preprocessing if rows are images; None for arrays."""
        return self._preprocess

    def positions(self, at_most: int | None = None) -> range:
        """All positions, or the first ``at_most``."""
        return range(self._count)[:at_most]

    def highest_label(self, positions: Sequence[int] | None) -> int:
        """Highest label of the rows; -1 if none is labelled."""
        if self._labels is None:
            return -1
        labels = self._labels if positions is None else self._labels[list(positions)]
        return int(labels.max(initial=-1))

    def read(self, positions: Iterable[int]) -> Iterator[Sample | BadSample]:
        """Stream the rows. Damage ends the iteration, because no row behind it can be read."""
        for position, row in self._table.read_samples(list(self._keys.values()), positions):
            name = self.name(position)
            try:
                feed = {}
                for spec in self._inputs:
                    array = row[self._keys[spec.name]]
                    feed[spec.name] = cast_to_input(
                        spec, array[None] if self._batched[spec.name] else array, name
                    )
                labels = None if self._labels is None else self._labels[position]
                accepted = () if labels is None else list_unique_classes(labels)
                yield Sample(name, feed, accepted)
            except DataError as error:
                yield BadSample(name, error)


class NpzFolder(ArraySource):
    """A folder of .npz files. Each file is one feed with the shapes of the model's inputs."""

    def __init__(self, listing: FolderListing, inputs: Sequence[InputSpec]) -> None:
        """Read no file yet."""
        self._unused = find_unused_label_files(listing.root)
        self._reader = LabelReader(listing.root)
        self._listing = listing
        self._inputs = inputs

    @property
    def labelling(self) -> Labelling:
        """Where the labels come from, and what was converted in the files that were read."""
        names = self._reader.names
        unused = [note for note in self._unused if not (names and note.startswith(CLASS_LIST))]
        numbered = f", names numbered by {CLASS_LIST}" if names else ""
        notes = (*sorted(self._reader.notes), *unused)
        return Labelling(f"array 'labels' of each .npz{numbered}", names, notes)

    def positions(self, at_most: int | None = None) -> range:
        """All positions, or the first ``at_most``."""
        return range(len(self._listing.archives))[:at_most]

    def name(self, position: int) -> str:
        """The file's path relative to the folder."""
        return self._listing.archives[position]

    identity = name

    def highest_label(self, positions: Sequence[int] | None) -> int:
        """-1: labels are unknown before the files are read."""
        return -1

    def read(self, positions: Iterable[int]) -> Iterator[Sample | BadSample]:
        """Read the files one by one."""
        for position in positions:
            name = self.name(position)
            try:
                yield self._read_sample(name)
            except DataError as error:
                yield BadSample(name, error)

    def _read_sample(self, name: str) -> Sample:
        path = self._listing.root / name
        where = str(path)
        with open_npz(path) as (archive, headers):
            keys, labels = match_keys(list(headers), self._inputs, where)
            for spec in self._inputs:
                header = headers[keys[spec.name]]
                check_header(spec, header.shape, header.dtype, where)
            feed = {
                spec.name: cast_to_input(
                    spec,
                    read_array(archive, keys[spec.name], headers[keys[spec.name]], where),
                    where,
                )
                for spec in self._inputs
            }
            if labels is None:
                return Sample(name, feed)
            classes = read_array(archive, labels, headers[labels], where)
        if classes.ndim == 2 and len(classes) == 1:
            classes = classes[0]
        if classes.ndim and len(classes) > 1:
            leading = {array.shape[:1] for array in feed.values()}
            if leading == {classes.shape[:1]}:
                raise DataError(
                    f"{where}: a file of this folder is one sample, but it has {len(classes)} labels; "
                    "give one .npz of all rows instead"
                )
        return Sample(name, feed, self._reader.read(classes, where))
