"""Pandas frames: a column of image paths, one column for each input, or one column for each feature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError
from ptq.data.image_reader import is_image
from ptq.data.input_spec import InputSpec
from ptq.data.sources.columns import choose_columns

_LABELS = ("labels", "label")


def is_frame(source: Any) -> bool:
    """Whether an object is a frame: rows by position, and named columns."""
    return hasattr(source, "iloc") and hasattr(source, "columns") and hasattr(source, "to_numpy")


def index_rows(frame: Any, inputs: Sequence[InputSpec]) -> Callable[[int], Any]:
    """A function from an index to the item of a row.

    Raises:
        DataError: The frame is empty, or its columns do not feed the model.
    """
    if len(frame) == 0:
        raise DataError("the frame contains no samples")
    names = [str(name) for name in frame.columns]
    first = dict(zip(names, frame.iloc[0], strict=True))
    images = {name for name, value in first.items() if is_image(value)}
    columns = choose_columns(names, images, (), inputs, "the frame")
    values = [frame.iloc[:, names.index(name)] for name in columns.inputs]
    labels = None if columns.label is None else frame.iloc[:, names.index(columns.label)]

    def read_row(index: int) -> Any:
        item = tuple(_to_value(column.iloc[index]) for column in values)
        return item if labels is None else (*item, labels.iloc[index])

    return read_row


def _to_value(value: Any) -> Any:
    """A number as an array of one feature; any other value unchanged."""
    return np.asarray(value).reshape(1) if np.ndim(value) == 0 and not is_image(value) else value


def read_features(frame: Any, inputs: Sequence[InputSpec]) -> dict[str, NDArray[Any]] | None:
    """A frame of numbers as one array of shape [rows, features] and ``labels``; None if it is not one.

    It feeds a single input of two dimensions that is named like no column.
    """
    names = [str(name) for name in frame.columns]
    features = [name for name in names if name not in _LABELS]
    if len(inputs) != 1 or len(inputs[0].shape) != 2 or inputs[0].name in names or not features:
        return None
    matrix = np.asarray(frame.iloc[:, [names.index(name) for name in features]])
    if matrix.dtype.kind not in "biuf":
        return None
    arrays = {inputs[0].name: matrix}
    for name in _LABELS:
        if name in names:
            arrays["labels"] = np.asarray(frame.iloc[:, names.index(name)])
    return arrays
