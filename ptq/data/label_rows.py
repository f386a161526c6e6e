"""Labels in arrays: class numbers, lists of accepted classes, or one-hot rows, which are converted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError

ONE_HOT_CONVERTED = "one-hot rows converted to class numbers"
"""Note of reports."""


def convert_one_hot(labels: NDArray[Any], where: str) -> tuple[NDArray[Any], bool]:
    """Class numbers of an array of one-hot rows, and True; or the array itself, and False.

    Rows are one-hot if each has one 1 and is 0 elsewhere. A row of −1 is a sample without label.

    Args:
        labels: Shape [samples] or [samples, width].
        where: Name of the array in the error.

    Raises:
        DataError: Some rows are one-hot and others are all 0.
    """
    if labels.ndim != 2 or labels.shape[1] < 2 or labels.dtype.kind not in "biuf":
        return labels, False
    unlabelled = (labels == -1).all(axis=1)
    rows = labels[~unlabelled]
    if not len(rows) or not ((rows == 0) | (rows == 1)).all():
        return labels, False
    ones = (rows == 1).sum(axis=1)
    if (ones > 1).any() or not ones.any():
        return labels, False
    if not ones.all():
        empty = int(np.flatnonzero(~unlabelled)[np.flatnonzero(ones == 0)[0]])
        raise DataError(
            f"{where}: row {empty} is all 0, but other rows are one-hot; give class numbers, and -1 for no label"
        )
    numbers = np.full(len(labels), -1, np.int64)
    numbers[~unlabelled] = rows.argmax(axis=1)
    return numbers, True


def is_one_hot(values: NDArray[Any]) -> bool:
    """Whether the label of one sample is a one-hot row.

    A list of accepted classes does not repeat a class. So three or more integers of which one is 1 and the others are
    0 are a one-hot row. Floats and booleans are no classes, so two of them suffice.
    """
    if values.ndim != 1 or values.dtype.kind not in "biuf":
        return False
    fewest = 3 if values.dtype.kind in "iu" else 2
    binary = ((values == 0) | (values == 1)).all()
    return bool(values.size >= fewest and binary and values.sum() == 1)


def is_ambiguous(values: NDArray[Any]) -> bool:
    """Whether two integers may be a one-hot row or the accepted classes 0 and 1."""
    pair = values.ndim == 1 and values.size == 2 and values.dtype.kind in "iu"
    return bool(pair and sorted(values.tolist()) == [0, 1])
