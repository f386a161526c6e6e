"""A feed of several rows as one feed for each row, where the model's batch axis allows any number, or one.

A batch counts as many samples as it has rows: labels and held-out samples belong to rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError
from ptq.data.input_spec import InputSpec

Row = tuple[dict[str, NDArray[Any]], Any]
"""Arrays by input name, and a label."""


def split_batch(
    feed: Mapping[str, NDArray[Any]], label: Any, inputs: Sequence[InputSpec], where: str
) -> list[Row]:
    """The rows of a feed, each with its label; the feed alone if it cannot be split.

    An array with one axis less than its input gets a batch axis of 1. A feed is split if every input has a batch axis
    of any length or of 1, and if all arrays have the same number of rows. An input with a single axis of any length
    may be a signal instead of a batch, so a model that has such inputs only is not split.

    Raises:
        DataError: The number of labels differs from the number of rows, or the model takes another number at once.
    """
    feed = {spec.name: _add_batch_axis(spec, feed[spec.name]) for spec in inputs}
    count = count_rows(feed, inputs)
    if count < 2:
        _require_rows(feed, inputs, where)
        return [(dict(feed), take_single(label))]
    labels = split_label(label, count, where)
    return [
        ({name: array[row : row + 1] for name, array in feed.items()}, labels[row])
        for row in range(count)
    ]


def count_rows(feed: Mapping[str, NDArray[Any]], inputs: Sequence[InputSpec]) -> int:
    """Number of samples in a feed; 1 if it cannot be split."""
    lengths: set[int] = set()
    for spec in inputs:
        array = feed[spec.name]
        if not spec.shape or array.ndim != len(spec.shape) or spec.shape[0] not in (1, None):
            return 1
        lengths.add(array.shape[0])
    if len(lengths) != 1 or all(len(spec.shape) == 1 for spec in inputs):
        return 1
    return max(1, *lengths)


def _add_batch_axis(spec: InputSpec, array: NDArray[Any]) -> NDArray[Any]:
    lacks_batch = array.ndim == len(spec.shape) - 1 and spec.shape[0] in (1, None)
    return array[np.newaxis] if lacks_batch else array


def _require_rows(
    feed: Mapping[str, NDArray[Any]], inputs: Sequence[InputSpec], where: str
) -> None:
    """Refuse a feed whose number of rows is not the one that the model takes."""
    for spec in inputs:
        shape, rows = feed[spec.name].shape, spec.shape[0] if spec.shape else None
        if rows in (1, None):
            continue
        single = len(shape) == len(spec.shape) - 1
        if single or (len(shape) == len(spec.shape) > 1 and shape[0] != rows):
            have = "one sample without a batch axis" if single else f"{shape[0]} rows"
            raise DataError(
                f"{where}: input {spec.name!r} has {have}; the model takes {spec}, {rows} rows at once: give "
                f"batches of {rows} (batch_size={rows}, drop_last=True), or export it with a dynamic batch"
            )


def split_label(label: Any, count: int, where: str) -> Sequence[Any]:
    """The label of each row; None for each if there is none.

    Raises:
        DataError: Their number is not that of the rows.
    """
    if label is None:
        return [None] * count
    try:
        length = len(label)
    except TypeError:
        length = None
    if length != count:
        have = "one label" if length is None else f"{length} labels"
        raise DataError(
            f"{where}: the batch has {count} rows, but {have}; give one label for each row"
        )
    rows: Sequence[Any] = label
    return rows


def take_single(label: Any) -> Any:
    """The label of a batch of one row; it may have a batch axis of its own."""
    if isinstance(label, list) and len(label) == 1:
        row = label[0]
        if (isinstance(row, (list, tuple)) or getattr(row, "ndim", 0) == 1) and len(row):
            return row
    if isinstance(label, np.ndarray) and label.ndim > 1 and len(label) == 1:
        return label[0]
    return label
