"""Datasets of Hugging Face: which columns feed the model, and the items."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ptq.core.errors import DataError, UsageError
from ptq.data.formats.image_reader import is_image
from ptq.data.input_spec import InputSpec
from ptq.data.sources.array_like import get_package
from ptq.data.sources.columns import Columns, choose_columns


def is_hugging_face(source: Any) -> bool:
    """Whether an object is a dataset, or a dict of datasets, of the package datasets."""
    return get_package(source) == "datasets"


def require_split(source: Any, title: str) -> None:
    """Refuse a dict of splits; raise UsageError that names them."""
    if isinstance(source, Mapping):
        names = ", ".join(repr(str(name)) for name in source)
        first = next(iter(source), "train")
        raise UsageError(
            f"{title} is a {type(source).__name__} with the splits {names}; give one, for example {title}[{first!r}]"
        )


def select_item(row: Mapping[str, Any], columns: Columns) -> Any:
    """The inputs and the label of a row, in the order in which `ptq.data.sources.item` takes them."""
    values = [row[name] for name in columns.inputs]
    return (*values, row[columns.label]) if columns.label is not None else (*values,)


def choose_dataset_columns(
    dataset: Any, first: Mapping[str, Any], inputs: Sequence[InputSpec]
) -> Columns:
    """Columns of a dataset. The first row shows them, because a transform may change them."""
    features = getattr(dataset, "features", None) or {}
    kinds = {name: type(features[name]).__name__ for name in first if name in features}
    images = {
        name for name, value in first.items() if kinds.get(name) == "Image" or _has_images(value)
    }
    classes = {name for name, kind in kinds.items() if kind == "ClassLabel"}
    return choose_columns(list(first), images, classes, inputs, "the dataset")


def _has_images(value: Any) -> bool:
    """Whether a value is an image or a batch of images; a text is no path here."""
    values = value if isinstance(value, list) and value else [value]
    return is_image(values[0]) and not isinstance(values[0], str)


def index_items(dataset: Any, inputs: Sequence[InputSpec]) -> Callable[[int], Any]:
    """A function from an index to the item of a dataset with random access.

    Raises:
        DataError: The dataset is empty, or its columns do not feed the model.
    """
    if len(dataset) == 0:
        raise DataError("the dataset contains no samples")
    columns = choose_dataset_columns(dataset, dataset[0], inputs)
    return lambda index: select_item(dataset[index], columns)


def iterate_items(dataset: Any, inputs: Sequence[InputSpec]) -> Iterator[Any]:
    """The items of a streamed dataset."""
    columns: Columns | None = None
    for row in dataset:
        columns = columns or choose_dataset_columns(dataset, row, inputs)
        yield select_item(row, columns)
