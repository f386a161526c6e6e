"""Rows of Parquet files as samples: images in bytes, arrays, and labels; on this machine or in a store.

An image is a column of bytes, or a struct of ``bytes`` and ``path`` as the package datasets writes it. Its path names
the sample if all rows have different ones. Arrays are lists, or tensors of fixed shape. Rows are read in small
batches.
"""

from __future__ import annotations

import io
import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from PIL import UnidentifiedImageError

from ptq.core import remote
from ptq.core.errors import DataError, UsageError, shorten_message
from ptq.data.formats.decode import FORMATS, open_image
from ptq.data.input_spec import InputSpec
from ptq.data.preprocessing.image_options import ImageOptions
from ptq.data.sources.columns import Columns, choose_columns
from ptq.data.sources.indexed_items import IndexedItems

_TENSOR = "extension<arrow.fixed_shape_tensor"
_BATCH = 64
"""Rows that are decoded at once."""


class ParquetRows(IndexedItems):
    """The rows of Parquet files of the same columns, in order."""

    def __init__(
        self, places: Sequence[str], inputs: Sequence[InputSpec], images: ImageOptions | None
    ) -> None:
        """Open the files and read the first row.

        Args:
            places: Paths or URLs of the files.
            inputs: The model's inputs.
            images: Options for images, if any.

        Raises:
            DataError: A file cannot be read or is damaged, or its columns do not feed the model.
            UsageError: The package pyarrow is missing.
        """
        title = remote.redact(places[0])
        self._files = _ParquetFiles(places, inputs)
        self._names = self._files.read_paths()
        super().__init__(self._files.read_item, self._files.count, inputs, title, images)

    def name(self, position: int) -> str:
        """The path that the row holds, else the file and the index."""
        return self._names[position] if self._names else super().name(position)

    def identity(self, position: int) -> str:
        """The path that the row holds, else the index."""
        return self._names[position] if self._names else super().identity(position)


class _ParquetFiles:
    """Rows by index over several files."""

    def __init__(self, places: Sequence[str], inputs: Sequence[InputSpec]) -> None:
        try:
            import pyarrow.parquet
        except ImportError as error:
            raise UsageError(
                f"{remote.redact(places[0])}: Parquet needs a package that is not installed; "
                'pip install "onnx-ptq[parquet]"'
            ) from error
        self._places = places
        self._inputs = inputs
        self._opened = [self._open(pyarrow.parquet, place) for place in places]
        schema = self._opened[0].schema_arrow
        for place, file in zip(places, self._opened, strict=True):
            if file.schema_arrow.names != schema.names:
                raise DataError(
                    f"{remote.redact(place)}: has other columns than {remote.redact(places[0])}"
                )
        self._columns = _choose_columns(schema, inputs, remote.redact(places[0]))
        self._starts = [0]
        for file in self._opened:
            self._starts.append(self._starts[-1] + file.metadata.num_rows)
        self.count = self._starts[-1]
        self._iterator: Iterator[Any] | None = None
        self._next = 0

    def _open(self, parquet: Any, place: str) -> Any:
        try:
            if remote.as_url(place) is None:
                return parquet.ParquetFile(place)
            return remote.run_with_retries(
                place, lambda: parquet.ParquetFile(remote.open_stream(place))
            )
        # pyarrow's errors are ValueError, OSError and its own; a file may be damaged in any way
        except Exception as error:
            raise _build_unreadable_error(place, error) from error

    def read_paths(self) -> list[str]:
        """The path of each row's image; empty if a row has none, or two rows have the same."""
        paths: list[str] = []
        schema = self._opened[0].schema_arrow
        for column in self._columns.inputs:
            kind = schema.field(column).type
            if len(self._columns.inputs) != 1 or "path" not in _list_field_names(kind):
                return []
            for place, file in zip(self._places, self._opened, strict=True):
                try:
                    table = file.read(columns=[f"{column}.path"])
                except Exception as error:  # as above
                    raise _build_unreadable_error(place, error) from error
                paths += [(row or {}).get("path") or "" for row in table.column(column).to_pylist()]
        distinct = {*paths}
        return paths if len(distinct) == len(paths) and "" not in distinct else []

    def read_item(self, position: int) -> Any:
        """The inputs and the label of a row; rows in order are read once."""
        iterator = self._iterator
        if iterator is None or not 0 <= position - self._next <= 2 * _BATCH:
            iterator, self._next = self._iterate(position)
        self._iterator = None  # an interrupted iterator is not used again
        while True:
            row = next(iterator)
            self._next += 1
            if self._next > position:
                self._iterator = iterator
                return self._to_item(row, self._locate(position))

    def _locate(self, position: int) -> str:
        """The file of a row, and its number there."""
        index = bisect_right(self._starts, position) - 1
        return f"{remote.redact(self._places[index])}[{position - self._starts[index]}]"

    def _iterate(self, position: int) -> tuple[Iterator[Any], int]:
        """The rows from the row group of a position on, and the index of the first."""
        index = max(k for k, start in enumerate(self._starts[:-1]) if start <= position)
        file, first, group = self._opened[index], self._starts[index], 0
        while first + file.metadata.row_group(group).num_rows <= position:
            first += file.metadata.row_group(group).num_rows
            group += 1
        return self._iterate_rows(index, group), first

    def _iterate_rows(self, index: int, group: int) -> Iterator[Any]:
        columns = [*self._columns.inputs, *([self._columns.label] if self._columns.label else [])]
        for place, file in zip(self._places[index:], self._opened[index:], strict=True):
            groups = list(range(group, file.num_row_groups))
            group = 0
            try:
                for batch in file.iter_batches(_BATCH, row_groups=groups, columns=columns):
                    for row in range(batch.num_rows):
                        yield {name: batch.column(name)[row] for name in columns}
            except Exception as error:  # as above
                raise _build_unreadable_error(place, error) from error

    def _to_item(self, row: Mapping[str, Any], where: str) -> Any:
        values = [
            _to_value(row[column], spec, where)
            for column, spec in zip(self._columns.inputs, self._inputs, strict=True)
        ]
        label = self._columns.label
        return (*values, row[label].as_py()) if label is not None else (*values,)


def _choose_columns(schema: Any, inputs: Sequence[InputSpec], where: str) -> Columns:
    images = [field.name for field in schema if _is_image(field.type)]
    return choose_columns(schema.names, images, (), inputs, where)


def _list_field_names(kind: Any) -> list[str]:
    """Names of the fields of a struct; none of another type."""
    names = [kind.field(k).name for k in range(kind.num_fields)]
    return names if str(kind).startswith("struct") else []


def _is_image(kind: Any) -> bool:
    return str(kind) in ("binary", "large_binary") or "bytes" in _list_field_names(kind)


def _to_value(scalar: Any, spec: InputSpec, where: str) -> Any:
    """An image, or an array in the input's shape if it has as many values."""
    value = scalar.as_py()
    if isinstance(value, dict) and "bytes" in value:
        value = value["bytes"]
    if isinstance(value, bytes):
        try:
            return open_image(io.BytesIO(value))
        except UnidentifiedImageError as error:
            raise DataError(
                f"{where}: not an image; supported formats are {', '.join(FORMATS)}"
            ) from error
        # on damaged files Pillow raises SyntaxError, struct.error, KeyError and more
        except Exception as error:
            raise DataError(f"{where}: cannot read the image: {shorten_message(error)}") from error
    if value is None:
        raise DataError(f"{where}: a value is missing")
    array = np.asarray(value)
    if array.dtype.kind in "biuf":  # Python's numbers have lost the type of the column
        array = array.astype(_get_element_type(scalar.type))
    if array.dtype.kind == "f" and spec.dtype.kind == "f":
        array = array.astype(spec.dtype)
    row = spec.shape[1:] if spec.shape and spec.shape[0] in (1, None) else spec.shape
    sizes = [size for size in row if size is not None]
    fits = len(sizes) == len(row) > 1 and math.prod(sizes) == array.size
    if str(scalar.type).startswith(_TENSOR):
        shape = scalar.type.shape
        # a tensor that has other axes of length 1 than a row of the input has the same values in the same order
        fits &= [n for n in shape if n != 1] == [n for n in sizes if n != 1]
        _refuse_permuted(scalar.type, where, alone=fits)
        array = array.reshape(sizes if fits else shape)
    elif array.ndim == 1 and fits:
        array = array.reshape(sizes)
    return array


def _get_element_type(kind: Any) -> Any:
    """The type of the numbers in a column of numbers, lists or tensors."""
    while hasattr(kind, "value_type"):
        kind = kind.value_type
    return kind.to_pandas_dtype()


def _refuse_permuted(kind: Any, where: str, *, alone: bool) -> None:
    """Raise DataError if the axes of a tensor are permuted; if ``alone``, axes of length 1 do not count.

    Arrow's writer and reader do not mean the same order by a permutation (pyarrow 26). The writer may note one for an
    array in C order that has an axis of length 1; what it means is the inverse.
    """
    written = np.argsort(kind.permutation or (), kind="stable").tolist()
    order = [axis for axis in written if not (alone and kind.shape[axis] == 1)]
    if order != sorted(order):
        raise DataError(
            f"{where}: a tensor with permuted axes; write it from an array in C order, as np.ascontiguousarray makes"
        )


def _build_unreadable_error(place: str, error: Exception) -> DataError:
    reason = remote.redact(" ".join(str(getattr(error, "strerror", None) or error).split()))[:200]
    return DataError(f"{remote.redact(place)}: not a Parquet file, or damaged: {reason}")
