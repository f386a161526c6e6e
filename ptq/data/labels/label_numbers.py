"""Class numbers from the values that people give as labels, and their check against the classes of the model.

A value is an integer, a whole float, a boolean, digits or a name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError
from ptq.data.labels.class_names import CLASS_LIST

Integers = NDArray[np.int64]
_LARGEST = 2**31
"""More than any model has classes; larger floats, such as infinity, are no class numbers."""
_NO_CLASS = "is no class number; give whole numbers from 0, and -1 for no label"


def to_class_numbers(
    values: NDArray[Any], where: str, classes: Mapping[str, int] | None
) -> Integers:
    """The labels as int64, −1 for none.

    Floats must be whole numbers. False is 0 and True is 1. Texts are numbers, or names of ``classes``.

    Args:
        values: Labels of any shape.
        where: Name of the array or sample in the error.
        classes: Class number by name; None if no names are known.

    Raises:
        DataError: A label is none of these, or below −1.
    """
    if not values.size:
        return values.astype(np.int64)
    if values.dtype.kind == "O":
        values = _to_plain(values, where)
    if values.dtype.kind == "U":
        numbers = _number_texts(values, where, classes)
    elif values.dtype.kind in "biu":
        if int(values.max()) > np.iinfo(np.int64).max:
            raise DataError(f"{where}: label {values.max()} {_NO_CLASS}")
        numbers = values.astype(np.int64)
    elif values.dtype.kind == "f":
        numbers = _to_whole(values, where)
    else:
        raise DataError(f"{where}: labels of type {values.dtype.name}; give whole numbers from 0")
    if int(numbers.min()) < -1:
        raise DataError(
            f"{where}: label {int(numbers.min())} is negative; for samples without label give -1"
        )
    return numbers


def _to_plain(values: NDArray[Any], where: str) -> NDArray[Any]:
    """An array of objects in a type of its own; a column of texts and gaps is one of texts."""
    kinds = {type(value) for value in values.flat}
    if all(issubclass(kind, str) for kind in kinds):
        return values.astype(np.str_)
    if all(issubclass(kind, (bool, int, float, np.number, np.bool_)) for kind in kinds):
        return np.array(values.tolist())
    shown = " ".join(repr(values.flat[0]).split())[:60]
    raise DataError(
        f"{where}: label {shown} cannot be read as a class; give a whole number from 0, a list of them, or a "
        "one-hot row, and -1 for no label"
    )


def _to_whole(values: NDArray[Any], where: str) -> Integers:
    if np.isnan(values).any():
        raise DataError(f"{where}: a label is NaN; for samples without label give -1")
    beyond = values[np.abs(values.astype(np.float64)) > _LARGEST]
    if beyond.size:
        raise DataError(f"{where}: label {beyond.flat[0]:g} {_NO_CLASS}")
    broken = values[values != np.rint(values)]
    if broken.size:
        raise DataError(
            f"{where}: label {broken.flat[0]:g} is no whole number; give the class number of each sample, not "
            "probabilities"
        )
    return values.astype(np.int64)


def _number_texts(values: NDArray[Any], where: str, classes: Mapping[str, int] | None) -> Integers:
    """Numbers of texts: all are numbers, or each is a name or a number."""
    numbers = np.empty(values.shape, np.int64)
    for index, text in np.ndenumerate(values):
        number = number_text(str(text), classes or {})
        numbers[index] = _refuse_name(str(text), where, classes) if number is None else number
    return numbers


def is_number(text: str) -> bool:
    """Whether a text is a class number, or that of no label."""
    return re.fullmatch(r"-?[0-9]{1,9}", text) is not None


def choose_names(
    texts: Collection[str], classes: Mapping[str, int], where: str, *, has_lists: bool
) -> Mapping[str, int]:
    """The names that the labels of a source may use: without those of digits, if its digits are class numbers.

    A list may name classes by digits, such as years. All digits of a source are names, or all are numbers. They are
    numbers if one is not listed, and names if one exceeds the classes. Lists of accepted classes and one-hot rows are
    numbers too.

    Args:
        texts: All labels of the source that are texts.
        classes: Class number by name, from a list.
        where: Name of the source in the error.
        has_lists: Whether a sample has several labels.

    Raises:
        DataError: Both readings fit, and give other classes.
    """
    others = {name: number for name, number in classes.items() if not is_number(name)}
    digits = {text for text in map(str.strip, texts) if is_number(text)}
    if "-1" not in classes:  # no label, whatever the others are
        digits -= {"-1"}
    if not digits <= classes.keys():
        return others
    if not all(-1 <= int(text) <= max(classes.values()) for text in digits):
        return classes
    different = sorted(text for text in digits if int(text) != classes[text])
    if has_lists or not different:
        return others
    text = different[0]
    other = "no label" if text == "-1" else f"class {int(text)}"
    raise DataError(
        f"{where}: label {text!r} may be {other}, or class {classes[text]}, whose name it is; if labels are names, "
        f"write class_{text} here and in {CLASS_LIST}; if they are numbers, in {CLASS_LIST} alone"
    )


def number_text(text: str, names: Mapping[str, int]) -> int | None:
    """The class of a label that is a text: one of the ``names``, or a number; None if it is neither.

    Blanks at its ends do not count.
    """
    text = text.strip()
    return names.get(text, int(text) if is_number(text) else None)


def _refuse_name(text: str, where: str, classes: Mapping[str, int] | None) -> NoReturn:
    shown = repr(text.strip()[:60])
    if classes is None:
        raise DataError(
            f"{where}: label {shown} is a name, and the order of the model's classes is unknown; give class numbers "
            f"from 0, or list the names in the model's order in a {CLASS_LIST} beside the file"
        )
    raise DataError(f"{where}: label {shown} is neither a number nor a name in {CLASS_LIST}")


def require_class(label: int, classes: Mapping[str, int], where: str) -> None:
    """Check that a label is a class of the model.

    Args:
        label: The label; -1 for none.
        classes: Number of class scores of each output that has scores.
        where: Name of the sample or samples in the error.

    Raises:
        DataError: The label exceeds the classes of every output.
    """
    if not classes or label < max(classes.values()):
        return
    name = max(classes, key=lambda name: classes[name])
    raise DataError(
        f"{where}: label {label} is not a class of output {name}, whose classes are 0 to "
        f"{classes[name] - 1}; number labels and class folders as the model does, or list the folders in "
        f"{CLASS_LIST}; for samples without label, or to be ignored, give -1"
    )
