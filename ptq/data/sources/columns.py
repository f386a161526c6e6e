"""Columns of a dataset or a frame as inputs of the model and a label."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ptq.core.errors import DataError
from ptq.data.input_spec import InputSpec

LABELS = ("labels", "label")
"""Names of labels in data from Python and in Parquet; the first that is there counts."""


@dataclass(frozen=True)
class Columns:
    """Which columns are read.

    Attributes:
        inputs: Column of each input, in the order of the inputs.
        label: Column of the labels; None without one.
    """

    inputs: tuple[str, ...]
    label: str | None


def choose_columns(
    names: Sequence[str],
    images: Collection[str],
    classes: Collection[str],
    inputs: Sequence[InputSpec],
    where: str,
) -> Columns:
    """Columns of the inputs' names; for a single input also the only column of images, or the only column.

    The label is the column ``labels`` or ``label``, or else the only column of classes.

    Args:
        names: All columns.
        images: Columns that hold images or their paths.
        classes: Columns that are declared to hold classes.
        inputs: The model's inputs.
        where: Name of the data in errors.

    Raises:
        DataError: No column or several may feed an input.
    """
    wanted = [spec.name for spec in inputs]
    labels = [name for name in LABELS if name in names and name not in wanted]
    labels = labels or [name for name in names if name in classes and name not in wanted]
    label = labels[0] if len(labels) == 1 or labels[:1] == ["labels"] else None
    if set(wanted) <= set(names):
        return Columns(tuple(wanted), label)
    others = [name for name in names if name not in (*labels, *LABELS)]
    shown = [name for name in others if name in images]
    for candidates in (shown, others):
        if len(wanted) == len(candidates) == 1:
            return Columns(tuple(candidates), label)
    raise DataError(
        f"{where}: columns must be named as the model's inputs, {', '.join(map(repr, wanted))}, plus "
        f"'labels' if any; the columns are {', '.join(map(repr, names))}: rename or remove columns"
    )
