"""Opening of an object from Python: arrays, tensors, datasets, loaders, frames, readers, lists, callables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ptq.core.errors import DataError, UsageError
from ptq.data.formats.arrays import MemoryTable, Table
from ptq.data.formats.image_reader import is_image
from ptq.data.formats.image_rows import ImageTable
from ptq.data.formats.rows import TableSource
from ptq.data.input_spec import InputSpec
from ptq.data.preprocessing.image_options import ImageOptions, may_be_image
from ptq.data.preprocessing.preprocess import Preprocess
from ptq.data.sample import SampleSource
from ptq.data.sources import calibration_reader, frame, hugging_face
from ptq.data.sources.array_like import to_array
from ptq.data.sources.indexed_items import IndexedItems
from ptq.data.sources.stream import FeedStream

_TITLE = "data"


def open_object(
    source: Any, inputs: Sequence[InputSpec], images: ImageOptions | None
) -> SampleSource:
    """Samples of an object that is no path. No package is imported for it.

    Raises:
        DataError: There are no samples, or the model does not take them.
        UsageError: The object is of no known kind, or options do not apply to it.
    """
    if hugging_face.is_hugging_face(source):
        hugging_face.require_split(source)
        if hasattr(source, "__len__"):
            get_item = hugging_face.index_items(source, inputs)
            return _open_items(get_item, len(source), inputs, images)
        return FeedStream(
            lambda: hugging_face.iterate_items(source, inputs), inputs, _TITLE, images
        )
    if frame.is_frame(source):
        arrays = frame.read_features(source, inputs)
        if arrays is not None:
            return open_table(MemoryTable(arrays), inputs, _TITLE, images)
        return _open_items(frame.index_rows(source, inputs), len(source), inputs, images)
    if calibration_reader.is_reader(source):
        return FeedStream(lambda: calibration_reader.iterate_feeds(source), inputs, _TITLE, images)
    if isinstance(source, Mapping):
        columns = {str(key): _require_array(value, str(key)) for key, value in source.items()}
        return open_table(MemoryTable(columns), inputs, _TITLE, images)
    if hasattr(source, "__array__") and not isinstance(source, Sequence):
        name = only_input_name(inputs, "an array")
        table = MemoryTable({name: _require_array(source, name)})
        return open_table(table, inputs, _TITLE, images)
    return _open_python(source, inputs, images)


def open_table(
    table: Table,
    inputs: Sequence[InputSpec],
    title: str,
    images: ImageOptions | None,
    folder: Path | None = None,
) -> SampleSource:
    """Rows of arrays, as images if there are options for them. ``folder`` is that of a file.

    Raises:
        DataError: The arrays do not fit the model.
        UsageError: Options are required, and the arrays hold no pixels.
    """
    if images is None or not (images.required or _holds_pixels(table, inputs, images.preprocess)):
        return TableSource(table, inputs, title, folder=folder)
    pixels = ImageTable(table, inputs, title, images.preprocess)
    return TableSource(pixels, inputs, title, pixels.preprocess, folder)


def only_input_name(inputs: Sequence[InputSpec], what: str) -> str:
    """Name of the model's input; raise DataError if it has not exactly one."""
    if len(inputs) != 1:
        names = ", ".join(repr(spec.name) for spec in inputs) or "none"
        raise DataError(f"{what} feeds one input, but the model's inputs are {names}; give an .npz")
    return inputs[0].name


def _holds_pixels(table: Table, inputs: Sequence[InputSpec], options: Preprocess) -> bool:
    """Whether the only array holds images; without any option, only if the input takes no pixels as they are."""
    arrays = [header for key, header in table.headers.items() if key != "labels"]
    if len(inputs) != 1 or len(arrays) != 1 or not arrays[0].shape[:1]:
        return False
    prepares = options != Preprocess() or inputs[0].dtype.kind == "f"
    return prepares and may_be_image(arrays[0].dtype, arrays[0].shape[1:])


def _require_array(value: Any, name: str) -> Any:
    if name == "labels" and isinstance(value, (list, tuple)) and {*map(type, value)} == {str}:
        return np.array(value)
    array = to_array(value, f"{_TITLE} array {name!r}")
    if array is None:
        raise DataError(
            f"{_TITLE} array {name!r}: has type {type(value).__name__}; give an array or a tensor whose leading "
            "axis counts the samples"
        )
    return array


def _open_python(
    source: Any, inputs: Sequence[InputSpec], images: ImageOptions | None
) -> SampleSource:
    if callable(source) and not hasattr(source, "__iter__"):
        title = getattr(source, "__name__", type(source).__name__)
        return FeedStream(source, inputs, title, images)
    by_index = hasattr(source, "__getitem__") and hasattr(source, "__len__")
    if isinstance(source, (list, tuple)):
        by_index = bool(source) and (
            (images is not None and images.required) or any(map(is_image, _list_values(source[0])))
        )
    elif is_image(source):
        raise UsageError("the data are a single image; give a list of images, or of paths")
    if by_index:
        return _open_items(source.__getitem__, len(source), inputs, images)
    if not isinstance(source, Iterable):
        raise UsageError(
            f"data of type {type(source).__name__}; give a path, arrays or a callable, a DataLoader, a dataset with "
            "__len__ and __getitem__, a CalibrationDataReader, or a list; for example "
            "data=[({'x': array}, label), …]"
        )
    return FeedStream(lambda: source, inputs, _TITLE, images)


def _list_values(item: Any) -> list[Any]:
    return list(item) if isinstance(item, (list, tuple)) else [item]


def _open_items(
    get_item: Callable[[int], Any],
    count: int,
    inputs: Sequence[InputSpec],
    images: ImageOptions | None,
) -> SampleSource:
    """Items by index; if the first is a batch, the items are read in order and split."""
    found = IndexedItems(get_item, count, inputs, _TITLE, images)
    if found.rows_of_first == 1:
        return found
    return FeedStream(lambda: (get_item(k) for k in range(count)), inputs, _TITLE, images)
