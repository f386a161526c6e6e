"""Labels in arrays and of single samples: class numbers, lists of accepted classes, or one-hot rows.

One-hot rows are converted. Rows that two readings fit are refused: no label may count as another class in silence.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError

ONE_HOT_CONVERTED = "one-hot rows converted to class numbers"
"""Note of reports."""
_CLASS_LISTS = "give the class number of each sample, or its accepted classes, padded with -1"


def convert_one_hot(labels: NDArray[Any], where: str) -> tuple[NDArray[Any], bool]:
    """Class numbers of an array of one-hot rows, and True; or the array itself, and False.

    Rows are one-hot if each has one 1, and is 0 or −1 elsewhere. A row of −1 is a sample without label.

    Args:
        labels: Shape [samples] or [samples, width].
        where: Name of the array in the error.

    Raises:
        DataError: Some rows are one-hot and others are not, or the rows may be lists of accepted classes too.
    """
    if labels.ndim != 2 or labels.shape[1] < 2 or labels.dtype.kind not in "biuf":
        return labels, False
    unlabelled = (labels == -1).all(axis=1)
    rows = labels[~unlabelled]
    ones = (rows == 1).sum(axis=1)
    if not len(rows) or not ones.any():
        return labels, False
    zero_one = bool(((rows == 0) | (rows == 1)).all())
    if not zero_one and not ((rows == -1) | (rows == 1)).all():
        return labels, False
    if (ones > 1).any():
        several = int(np.flatnonzero(~unlabelled)[np.flatnonzero(ones > 1)[0]])
        raise DataError(
            f"{where}: row {several} has several 1, so it is no one-hot row; {_CLASS_LISTS}"
        )
    if not ones.all():
        empty = int(np.flatnonzero(~unlabelled)[np.flatnonzero(ones == 0)[0]])
        raise DataError(
            f"{where}: row {empty} is all 0, but other rows are one-hot; give class numbers, and -1 for no label"
        )
    if not zero_one and labels.dtype.kind == "i" and (rows[:, 0] == 1).all():
        raise DataError(
            f"{where}: rows of one 1 and -1 are one-hot rows of class 0, or lists of class 1 alone; "
            "give class numbers"
        )
    numbers = np.full(len(labels), -1, np.int64)
    numbers[~unlabelled] = rows.argmax(axis=1)
    return numbers, True


def _is_one_hot(values: NDArray[Any]) -> bool:
    """Whether the label of one sample is a one-hot row.

    A list of accepted classes does not repeat a class. So three or more integers of which one is 1 and the others are
    0 are a one-hot row. Floats and booleans are no classes, so two of them suffice.
    """
    if values.ndim != 1 or values.dtype.kind not in "biuf":
        return False
    fewest = 3 if values.dtype.kind in "iu" else 2
    binary = ((values == 0) | (values == 1)).all()
    return bool(values.size >= fewest and binary and values.sum() == 1)


def _is_ambiguous(values: NDArray[Any]) -> bool:
    """Whether two integers may be a one-hot row or the accepted classes 0 and 1."""
    pair = values.ndim == 1 and values.size == 2 and values.dtype.kind in "iu"
    return bool(pair and sorted(values.tolist()) == [0, 1])


def _is_signed_one_hot(values: NDArray[Any]) -> bool:
    """Whether the label of one sample is a one-hot row of −1 and 1. A list of classes has its −1 at the end."""
    if values.ndim != 1 or values.dtype.kind not in "if" or values.size < 2 or values[0] != -1:
        return False
    return bool(((values == -1) | (values == 1)).all() and (values == 1).any())


def parse_labels(labels: Any, where: str, notes: set[str] | None = None) -> tuple[int, ...]:
    """Acceptable classes from the label of one sample; −1 or None means no label.

    Args:
        labels: An integer, a list of integers, or a one-hot row.
        where: Name of the sample in the error.
        notes: Receives a note of the report if the label was converted.

    Raises:
        DataError: It is none of these, or a class is below −1.
    """
    if labels is None:
        return ()
    try:
        values = np.atleast_1d(np.asarray(labels))
    except ValueError:
        values = np.empty((1, 1))
    if _is_one_hot(values):
        if notes is not None:
            notes.add(ONE_HOT_CONVERTED)
        return (int(values.argmax()),)
    if _is_signed_one_hot(values):
        shown = " ".join(str(values.tolist()).split())[:60]
        raise DataError(
            f"{where}: label {shown} is a row of -1 and 1; give the class number, or a one-hot row of 0 and 1"
        )
    if _is_ambiguous(values):
        raise DataError(
            f"{where}: label {values.tolist()} is a one-hot row or the two classes 0 and 1; give the class number, "
            "or [0, 1, -1] for both classes"
        )
    return parse_class_list(values, where, labels)


def parse_class_list(values: NDArray[Any], where: str, given: Any = None) -> tuple[int, ...]:
    """Acceptable classes from one axis of integers; −1 means no label.

    Raises:
        DataError: They are not integers, or a class is below −1.
    """
    if values.ndim != 1 or (values.size and values.dtype.kind not in "iu"):
        given = values if given is None else given
        shown = " ".join(repr(given).split())[:60]
        if isinstance(given, np.ndarray) and given.size > 1:
            shown = f"of type {given.dtype.name}"
        raise DataError(
            f"{where}: label {shown} is not an integer, a list of integers or a one-hot row"
        )
    if values.size and int(values.min()) < -1:
        raise DataError(
            f"{where}: label {int(values.min())} is negative; only -1 is allowed, for no label"
        )
    return tuple(dict.fromkeys(int(v) for v in values if v >= 0))
