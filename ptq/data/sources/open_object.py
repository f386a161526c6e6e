"""Opening of an object from Python: arrays, tensors, datasets, loaders, frames, readers, lists, callables."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, KeysView, Mapping, Sequence, Set
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
from ptq.data.sources.stream import Feeds, FeedStream, call_feeds


def open_object(
    source: Any, inputs: Sequence[InputSpec], images: ImageOptions | None, title: str = "data"
) -> SampleSource:
    """Samples of an object that is no path. No package is imported for it.

    Args:
        source: The object.
        inputs: The model's inputs.
        images: Options for images; None if none apply.
        title: Name of the argument that the object is, for messages.

    Raises:
        DataError: There are no samples, or the model does not take them.
        UsageError: The object is of no known kind, or options do not apply to it.
    """
    if hugging_face.is_hugging_face(source):
        hugging_face.require_split(source, title)
        if hasattr(source, "__len__"):
            get_item = hugging_face.index_items(source, inputs)
            return _open_items(get_item, len(source), inputs, title, images)
        return FeedStream(lambda: hugging_face.iterate_items(source, inputs), inputs, title, images)
    if frame.is_frame(source):
        arrays = frame.read_features(source, inputs)
        if arrays is not None:
            return open_table(MemoryTable(arrays), inputs, title, images)
        return _open_items(frame.index_rows(source, inputs), len(source), inputs, title, images)
    if calibration_reader.is_reader(source):
        return FeedStream(lambda: calibration_reader.iterate_feeds(source), inputs, title, images)
    if isinstance(source, Mapping):
        columns = {
            str(key): _require_array(value, str(key), title) for key, value in source.items()
        }
        return open_table(MemoryTable(columns), inputs, title, images)
    if hasattr(source, "__array__") and not isinstance(source, Sequence):
        name = get_only_input_name(inputs, "an array")
        table = MemoryTable({name: _require_array(source, name, title)})
        return open_table(table, inputs, title, images)
    return _open_python(source, inputs, images, title)


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
    if images is None or not (images.required or _has_pixels(table, inputs, images.preprocess)):
        return TableSource(table, inputs, title, folder=folder)
    pixels = ImageTable(table, inputs, title, images.preprocess)
    return TableSource(pixels, inputs, title, pixels.preprocess, folder)


def get_only_input_name(inputs: Sequence[InputSpec], what: str) -> str:
    """Name of the model's input; raise DataError if it has not exactly one."""
    if len(inputs) != 1:
        names = ", ".join(repr(spec.name) for spec in inputs) or "none"
        raise DataError(f"{what} feeds one input, but the model's inputs are {names}; give an .npz")
    return inputs[0].name


def _has_pixels(table: Table, inputs: Sequence[InputSpec], options: Preprocess) -> bool:
    """Whether the only array holds images; without any option, only if the input takes no pixels as they are."""
    arrays = [header for key, header in table.headers.items() if key != "labels"]
    if len(inputs) != 1 or len(arrays) != 1 or not arrays[0].shape[:1]:
        return False
    prepares = options != Preprocess() or inputs[0].dtype.kind == "f"
    return prepares and may_be_image(arrays[0].dtype, arrays[0].shape[1:])


def _require_array(value: Any, name: str, title: str) -> Any:
    if name == "labels" and isinstance(value, (list, tuple)):
        value = _to_labels(value, title)
    array = to_array(value, f"{title} array {name!r}")
    if array is None:
        raise DataError(
            f"{title} array {name!r}: has type {type(value).__name__}; give an array or a tensor whose leading "
            "axis counts the samples"
        )
    return array


def _to_labels(labels: Sequence[Any], title: str) -> Any:
    """Labels of a list as an array, if they are names, or numbers with None for no label; else the list.

    Raises:
        DataError: A label is neither a name nor a number.
    """
    if {*map(type, labels)} == {str}:
        return np.array(labels)
    if all(label is None or isinstance(label, (int, np.integer)) for label in labels):
        labels = [-1 if label is None else label for label in labels]
    for position, label in enumerate(labels):
        if label is None or isinstance(label, (bytes, dict, set)):
            raise DataError(
                f"{title} array 'labels': label {position} has type {type(label).__name__}; give class names, or "
                "class numbers with -1 for no label"
            )
    return labels


def _open_python(
    source: Any, inputs: Sequence[InputSpec], images: ImageOptions | None, title: str
) -> SampleSource:
    if callable(source) and not hasattr(source, "__iter__"):
        return open_callable(
            source, inputs, getattr(source, "__name__", type(source).__name__), images
        )
    if is_image(source):
        raise UsageError(f"{title}: is a single image; give a list of images, or of paths")
    if _has_indices(source):
        return _open_sequence(source, inputs, title, images)
    _require_order(source, title)
    if not isinstance(source, Iterable):
        raise UsageError(
            f"{title} of type {type(source).__name__}; give a path, arrays or a callable, a DataLoader, a dataset "
            "with __len__ and __getitem__, a CalibrationDataReader, or a list; for example "
            f"{title}=[({{'x': array}}, label), …]"
        )
    return FeedStream(lambda: source, inputs, title, images)


def open_callable(
    feeds: Feeds, inputs: Sequence[InputSpec], title: str, images: ImageOptions | None
) -> SampleSource:
    """Items of a callable: those of a list by index, others as a stream.

    Raises:
        DataError: The callable fails, or returns no items.
    """
    found = call_feeds(feeds, title)
    _require_order(found, title)
    own_order = hasattr(found, "__iter__") and not isinstance(found, (list, tuple, np.ndarray))
    if _has_indices(found) and not own_order:
        return _open_sequence(found, inputs, title, images)
    first = [found]  # it serves the first pass, as making it may take long
    return FeedStream(lambda: first.pop() if first else feeds(), inputs, title, images)


def _require_order(source: Any, title: str) -> None:
    """Refuse a set: its order changes from run to run, and with it the model. Views of a dict have an order."""
    if isinstance(source, Set) and not isinstance(source, (KeysView, ItemsView)):
        raise UsageError(
            f"{title} of type {type(source).__name__}; give a list: a set has no order"
        )


def _has_indices(source: Any) -> bool:
    """Whether an object gives its items by index; a scalar array has the methods, but no items."""
    has_both = hasattr(source, "__getitem__") and hasattr(source, "__len__")
    return has_both and getattr(source, "shape", None) != ()


def _open_sequence(
    source: Any, inputs: Sequence[InputSpec], title: str, images: ImageOptions | None
) -> SampleSource:
    """Items with a known length. In a list, only images are read by index: others may be batches of any size."""
    if not isinstance(source, (list, tuple)):
        return _open_items(source.__getitem__, len(source), inputs, title, images)
    required = images is not None and images.required
    if source and (required or any(map(is_image, _list_values(source[0])))):
        return _open_items(source.__getitem__, len(source), inputs, title, images)
    return FeedStream(lambda: source, inputs, title, images, is_listed=True)


def _list_values(item: Any) -> list[Any]:
    return list(item) if isinstance(item, (list, tuple)) else [item]


def _open_items(
    get_item: Callable[[int], Any],
    count: int,
    inputs: Sequence[InputSpec],
    title: str,
    images: ImageOptions | None,
) -> SampleSource:
    """Items by index; if the first is a batch, the items are read in order and split."""
    found = IndexedItems(get_item, count, inputs, title, images)
    if found.rows_of_first == 1:
        return found
    return FeedStream(lambda: (get_item(k) for k in range(count)), inputs, title, images)
