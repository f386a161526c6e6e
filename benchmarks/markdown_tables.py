"""Tables of figures as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Figure = float | Sequence[float] | None
"""A number; a number with the two ends of its interval; None for what was not measured."""


def make_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a table. A row that ends early is filled with empty cells."""
    lines = [_join_cells(header), "|" + "---|" * len(header)]
    filled = ([*row, *[""] * (len(header) - len(row))] for row in rows)
    return [*lines, *(_join_cells(row) for row in filled)]


def _join_cells(cells: Sequence[str]) -> str:
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in cells)


def format_figure(figure: Figure, value: str, ends: str | None = None) -> str:
    """A figure in one form, and its interval in another; empty without a figure."""
    if figure is None:
        return ""
    numbers = figure if isinstance(figure, Sequence) else [figure]
    first, *interval = (number + 0.0 for number in numbers)  # no −0
    inner = " … ".join(format(end, ends or value) for end in interval)
    return format(first, value) + (f" ({inner})" if interval else "")


def describe_measured(codes: Iterable[tuple[str, str]]) -> str:
    """When and with which code rows were measured, as Markdown.

    Args:
        codes: Name of each row, and its code as `describe_code` has it.
    """
    names: dict[str, list[str]] = {}
    for name, code in codes:
        names.setdefault(code, []).append(name)
    if len(names) == 1:
        return f"Figures of\n{next(iter(names))}."
    lines = (f"- {code}: " + "; ".join(of) for code, of in names.items())
    return "\n".join(["Figures of", "", *lines])
