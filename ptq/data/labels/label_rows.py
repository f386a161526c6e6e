"""Labels in arrays and of single samples: class numbers, lists of accepted classes, or one-hot rows.

One-hot rows are converted. Rows that two readings fit are refused: no label may count as another class in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError
from ptq.data.labels.class_names import CLASS_LIST, read_class_list
from ptq.data.labels.label_numbers import (
    Integers,
    choose_names,
    number_text,
    to_class_numbers,
)

ONE_HOT_CONVERTED = "one-hot rows converted to class numbers"
"""Note of reports."""
_CLASS_LISTS = "give the class number of each sample, or its accepted classes, padded with -1"


def convert_one_hot(
    labels: NDArray[Any], where: str, name_row: Callable[[int], str] = "row {}".format
) -> tuple[NDArray[Any], bool]:
    """Class numbers of all one-hot rows of a source, and True; or the array itself, and False.

    Rows are one-hot if each has one 1, and is 0 or −1 elsewhere. A row of −1 is a sample without label. Two integers
    0 and 1 may be a list of both classes, unless both orders occur.

    Args:
        labels: Shape [samples] or [samples, width].
        where: Name of the array or file in the error.
        name_row: Name of a row in the error.

    Raises:
        DataError: Some rows are one-hot and others are not, or the rows may be lists of accepted classes too.
    """
    if labels.ndim != 2 or labels.shape[1] < 2 or labels.dtype.kind not in "biuf":
        return labels, False
    labelled = np.flatnonzero((labels != -1).any(axis=1))
    rows = labels[labelled]
    if not len(rows):
        return labels, False
    ones = (rows == 1).sum(axis=1)
    binary = ((rows == 0) | (rows == 1)).all(axis=1)
    # three or more integers 0 and 1 would repeat a class, which a list of accepted classes does not
    never_lists = labels.dtype.kind in "iu" and labels.shape[1] > 2
    if not binary.all() and not ((rows == -1) | (rows == 1)).all():
        one_hot = np.flatnonzero(binary & (ones == 1))
        if never_lists and one_hot.size:
            other = name_row(int(labelled[np.flatnonzero(~binary)[0]]))
            raise DataError(
                f"{where}: {name_row(int(labelled[one_hot[0]]))} is a one-hot row, but {other} is not; {_CLASS_LISTS}"
            )
        return labels, False
    if not ones.any() and not never_lists:
        return labels, False
    if (ones > 1).any():
        several = name_row(int(labelled[np.flatnonzero(ones > 1)[0]]))
        raise DataError(
            f"{where}: {several} has several 1, so it is no one-hot row; {_CLASS_LISTS}"
        )
    if not ones.all():
        empty = name_row(int(labelled[np.flatnonzero(ones == 0)[0]]))
        why = "but other rows are one-hot" if ones.any() else "so it is no one-hot row"
        raise DataError(
            f"{where}: {empty} is all 0, {why}; give class numbers, and -1 for no label"
        )
    if labels.dtype.kind in "iu" and (rows[:, 0] == rows[0, 0]).all():
        if not binary.all() and rows[0, 0] == 1:
            raise DataError(
                f"{where}: rows of one 1 and -1 are one-hot rows of class 0, or lists of class 1 alone; "
                "give class numbers"
            )
        if labels.shape[1] == 2 and binary.all():
            raise DataError(
                f"{where}: rows {rows[0].tolist()} are one-hot rows of class {rows[0].argmax()}, or lists of the "
                "classes 0 and 1; give class numbers"
            )
    numbers = np.full(len(labels), -1, np.int64)
    numbers[labelled] = rows.argmax(axis=1)
    return numbers, True


def _is_ambiguous(values: NDArray[Any]) -> bool:
    """Whether two integers may be a one-hot row or the accepted classes 0 and 1."""
    pair = values.ndim == 1 and values.size == 2 and values.dtype.kind in "iu"
    return bool(pair and sorted(values.tolist()) == [0, 1])


def _is_signed(values: NDArray[Any]) -> bool:
    """Whether the label of one sample is a row of −1 and 1 with a 1 and a −1."""
    if values.ndim != 1 or values.dtype.kind not in "if" or values.size < 2:
        return False
    return bool(((values == -1) | (values == 1)).all() and 1 in values and -1 in values)


class LabelReader:
    """Reads the labels of one source. What an earlier label shows about the source decides how a later one is read.

    Attributes:
        notes: What was converted, for the report.
        names: Class number of each class name that occurred.
    """

    def __init__(self, folder: Path | None = None, notes: set[str] | None = None) -> None:
        """``folder`` may have a ``classes.txt``, which numbers names; None for data that are in no folder."""
        self.notes: set[str] = set() if notes is None else notes
        self.names: dict[str, int] = {}
        self._folder = folder
        self._known: Mapping[str, int] | None = None
        self._read: dict[str, int | None] = {}
        self._has_lists = False
        self._signed = False
        self._padded_list = ""

    def read(self, label: Any, where: str) -> tuple[int, ...]:
        """Acceptable classes from the label of one sample; −1 or None means no label.

        Args:
            label: A whole number, a list of them, a one-hot row, or a class name.
            where: Name of the sample in the error.

        Raises:
            DataError: It is none of these, a class is below −1, or two readings fit.
        """
        if label is None:
            return ()
        values = _to_values(label, where)
        if _is_ambiguous(values):
            raise DataError(
                f"{where}: label {values.tolist()} is a one-hot row or the two classes 0 and 1; give the class "
                "number, or [0, 1, -1] for both classes"
            )
        if _is_signed(values):
            converted = self._is_signed_one_hot(values, where)
        else:
            converted = self._is_binary_one_hot(values, where)
        if converted:
            self.notes.add(ONE_HOT_CONVERTED)
            return (int(values.argmax()),)
        return list_unique_classes(self.to_numbers(values, where, values.size))

    def read_batch(self, labels: Sequence[Any], where: str) -> Sequence[Any]:
        """The labels of the rows of a batch; one-hot rows become class numbers, as in arrays.

        A batch does not show what the rows of another one are, so rows that may be lists are left as they are.
        """
        rows = [label for label in labels if isinstance(label, np.ndarray) and label.ndim == 1]
        if len(rows) < 2 or len(rows) != len(labels) or len({row.size for row in rows}) > 1:
            return labels
        if any(map(_is_ambiguous, rows)):
            return labels
        numbers, converted = convert_one_hot(np.stack(rows), where)
        if converted:
            self.notes.add(ONE_HOT_CONVERTED)
        return numbers.tolist() if converted else labels

    def to_numbers(self, values: NDArray[Any], where: str, width: int) -> Integers:
        """Labels of any shape as integers; names are numbered by ``classes.txt``.

        Args:
            values: The labels. They are no one-hot rows.
            where: Name of the array or sample in the error.
            width: Number of values for each sample.

        Raises:
            DataError: They are no whole numbers and no known names, or several floats or booleans for each sample.
        """
        if values.dtype.kind in "bf" and width > 1:
            raise DataError(
                f"{where}: {width} values of type {values.dtype.name} for each sample are no one-hot row; "
                f"{_CLASS_LISTS}"
            )
        if values.dtype.kind == "S":
            values = _decode(values, where)
        if values.dtype.kind in "OU":
            texts = {v.strip() for v in values.flat if isinstance(v, str)}
            self._number_names(texts, where, has_lists=width > 1)
        return to_class_numbers(values, where, self._known)

    def _number_names(self, texts: set[str], where: str, *, has_lists: bool) -> None:
        """Read ``classes.txt`` in the way that all labels so far show.

        Raises:
            DataError: It cannot be read, two ways fit, or an earlier label was read in another way.
        """
        if self._folder is None or (texts <= self._read.keys() and has_lists <= self._has_lists):
            return
        every = texts | self._read.keys()
        classes = read_class_list(self._folder, every)
        if classes is None:
            return
        self._has_lists |= has_lists
        known = choose_names(every, classes, where, has_lists=self._has_lists)
        found = {text: number_text(text, known) for text in every}
        changed = next((text for text, old in self._read.items() if found[text] != old), None)
        if changed is not None:
            raise DataError(
                f"{where}: with this label {CLASS_LIST} gives label {changed!r} of an earlier sample another class; "
                "give class numbers in all samples"
            )
        self._known, self._read = known, found
        self.names |= {text: known[text] for text in texts & known.keys()}

    def _is_binary_one_hot(self, values: NDArray[Any], where: str) -> bool:
        """Whether a row of 0 and 1 is a one-hot row; two integers are a list, such as [1, 1]."""
        if values.dtype.kind in "iu" and values.size < 3:
            return False
        return convert_one_hot(values[np.newaxis], where, lambda _: f"label {_show(values)}")[1]

    def _is_signed_one_hot(self, values: NDArray[Any], where: str) -> bool:
        """Whether a row of −1 and 1 is a one-hot row, and not a list of classes with its −1 at the end.

        A row that begins with −1 is a one-hot row, and so are floats. A row of integers 1, −1, … may be either.
        """
        shown = _show(values)
        if values[0] == 1 and values.dtype.kind == "i" and not self._signed:
            self._padded_list = self._padded_list or f"{where}: label {shown}"
            return False
        if (values == 1).sum() > 1:
            raise DataError(
                f"{where}: label {shown} has several 1, so it is no one-hot row; {_CLASS_LISTS}"
            )
        if self._padded_list:
            raise DataError(
                f"{where}: label {shown} is a one-hot row of -1 and 1, but {self._padded_list} may be a list of "
                "class 1 alone; give class numbers"
            )
        self._signed = self._signed or values.dtype.kind == "i"
        return True


def _decode(values: NDArray[Any], where: str) -> NDArray[Any]:
    try:
        return np.char.decode(values, "utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{where}: a label is bytes that are no UTF-8; give texts") from error


def _show(values: NDArray[Any]) -> str:
    return str(values.tolist())[:60]


def _to_values(label: Any, where: str) -> NDArray[Any]:
    try:
        values = np.atleast_1d(np.asarray(label))
    except ValueError:  # lists of different lengths
        values = np.empty((1, 1, 1))
    if values.ndim > 1:
        shown = " ".join(repr(label).split())[:60]
        if isinstance(label, np.ndarray):
            shown = f"of shape {list(label.shape)}"
        raise DataError(
            f"{where}: label {shown} is not one label; give a whole number, a list of them, or a one-hot row"
        )
    return values


def list_unique_classes(numbers: NDArray[Any]) -> tuple[int, ...]:
    """Each accepted class once; without −1."""
    return tuple(dict.fromkeys(int(v) for v in np.atleast_1d(numbers) if v >= 0))
