"""Section: accuracy of each class, and which classes are taken for which."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ptq.core.wording import format_change
from ptq.page.blocks import Cell, Column, Matrix, Table
from ptq.page.page import Section

_Counts = tuple[tuple[int, int, int], ...]
MAX_CLASSES = 24
"""Classes of a matrix that a screen can show."""


def build_classes(
    totals: tuple[_Counts, _Counts],
    confusions: tuple[_Counts, _Counts],
    classes: Mapping[str, int],
    names: tuple[str, str] = ("float", "int8"),
) -> Section:
    """The table of classes, the largest loss first, and the matrix of the second form.

    Args:
        totals: Label, number of samples and of right ones, of the reference and of the other form.
        confusions: Label, predicted class and number of samples, of both.
        classes: Class of each label name; empty if labels are numbers.
        names: What the two forms are called.
    """
    title = "Accuracy by class"
    if not all(totals):
        return Section("classes", title, [])
    by_number = {number: name for name, number in classes.items()}
    columns = (
        Column("class"),
        Column("samples", True),
        *(Column(f"{name} %", True) for name in names),
        Column("change points", True),
    )
    rows = sorted(_format_rows(*totals, by_number), key=lambda row: row[4].order or 0.0)
    blocks: list[object] = [Table("class-table", columns, tuple(rows))]
    numbers = sorted(
        {number for confusion in confusions for row in confusion for number in row[:2]}
    )
    if len(numbers) <= MAX_CLASSES:
        blocks.append(_build_matrix(*confusions, numbers, by_number))
    note = (
        f"The matrix counts the samples of each label (rows) by the answer of {names[1]} (columns); "
        f"a raised number is the difference to {names[0]}."
    )
    return Section("classes", title, blocks, note if len(blocks) > 1 else "", "Classes")


def _format_rows(
    before: _Counts, after: _Counts, by_number: Mapping[int, str]
) -> Iterator[tuple[Cell, ...]]:
    right = {label: count for label, _, count in after}
    for label, total, count in before:
        shares = [100 * count / total, 100 * right.get(label, 0) / total]
        change = shares[1] - shares[0]
        tone = "bad" if change < 0 else "good" if change > 0 else ""
        yield (
            Cell(by_number.get(label, str(label)), label if label not in by_number else None),
            Cell(str(total), total),
            *(Cell(f"{share:.2f}", share, bar=share / 100) for share in shares),
            Cell(format_change(change), change, tone=tone),
        )


def _build_matrix(
    before: _Counts, after: _Counts, numbers: list[int], by_number: Mapping[int, str]
) -> Matrix:
    old = {(label, predicted): count for label, predicted, count in before}
    new = {(label, predicted): count for label, predicted, count in after}
    counts = tuple(tuple(new.get((a, b), 0) for b in numbers) for a in numbers)
    changes = tuple(
        tuple(new.get((a, b), 0) - old.get((a, b), 0) for b in numbers) for a in numbers
    )
    names = tuple(by_number.get(number, str(number)) for number in numbers)
    return Matrix("label ↓ answer →", names, counts, changes)
