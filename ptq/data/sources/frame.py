"""Pandas frames: a column of image paths, one column for each input, or one column for each feature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError
from ptq.data.formats.image_reader import is_image
from ptq.data.input_spec import InputSpec
from ptq.data.sources.columns import LABELS, choose_columns

_NUMBERS = "biuf"
"""Kinds of numpy's types that are numbers."""


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
    values = [_get_column(frame, names, name) for name in columns.inputs]
    labels = None if columns.label is None else _get_column(frame, names, columns.label)

    def read_row(index: int) -> Any:
        item = tuple(_to_value(column.iloc[index]) for column in values)
        return item if labels is None else (*item, labels.iloc[index])

    return read_row


def _get_column(frame: Any, names: Sequence[str], name: str) -> Any:
    """The column of a name; raise DataError if several have it."""
    if names.count(name) > 1:
        raise DataError(f"the frame: {names.count(name)} columns are named {name!r}; rename one")
    return frame.iloc[:, names.index(name)]


def _to_value(value: Any) -> Any:
    """A number as an array of one feature; any other value unchanged."""
    return np.asarray(value).reshape(1) if np.ndim(value) == 0 and not is_image(value) else value


def read_features(frame: Any, inputs: Sequence[InputSpec]) -> dict[str, NDArray[Any]] | None:
    """A frame of numbers as one array of shape [rows, features] and ``labels``; None if it is not one.

    It feeds a single input of two dimensions that is named like no column. Missing numbers become NaN.

    Raises:
        DataError: A column is of another type, and is not the only one of images. Or several hold labels.
    """
    names = [str(name) for name in frame.columns]
    features = [position for position, name in enumerate(names) if name not in LABELS]
    if len(inputs) != 1 or len(inputs[0].shape) != 2 or inputs[0].name in names or not features:
        return None
    chosen = frame.iloc[:, features]
    matrix = np.asarray(chosen)
    if matrix.dtype.kind not in _NUMBERS:
        others = [p for p in features if frame.dtypes.iloc[p].kind not in _NUMBERS]
        other = next(iter(others), None)
        if other is None:
            matrix = _merge_types(chosen)
        elif len(features) == 1 or sum(map(is_image, chosen.head(1).to_numpy().flat)) == 1:
            return None
        else:
            raise DataError(
                f"the frame: column {names[other]!r} has type {frame.dtypes.iloc[other]}, which is no number; "
                f"convert it with astype or remove it, or name one column {inputs[0].name!r}, as the model's input"
            )
    arrays = {inputs[0].name: matrix}
    label = next((name for name in LABELS if name in names), None)
    if label is not None:
        arrays["labels"] = np.asarray(_get_column(frame, names, label))
    return arrays


def _merge_types(frame: Any) -> NDArray[Any]:
    """Columns of pandas' nullable types or of Arrow's, or of numbers and flags, as one array; NaN is missing."""
    types = [np.dtype(getattr(kind, "numpy_dtype", kind)) for kind in frame.dtypes]
    common = np.result_type(*types)
    missing = frame.isna().to_numpy().any()
    if missing and common.kind != "f":
        common = np.dtype(np.float64)
    numbers: NDArray[Any] = (
        frame.to_numpy(common, na_value=np.nan) if missing else frame.to_numpy(common)
    )
    return numbers
