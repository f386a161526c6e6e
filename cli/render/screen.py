"""Console, headings, paragraphs, tables and numbers of all results on the terminal."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ptq.core.errors import DataError
from ptq.core.preprocess_wording import describe_preprocessing
from ptq.core.topics import Topic, name_command

from ..one_line import to_one_line
from ..verbosity import is_quiet

if TYPE_CHECKING:
    from ptq.core.record import Record
    from ptq.data.preprocessing.recorded_preprocess import AppliedPreprocess
    from ptq.evaluation.diagnosis import Diagnosis


_UNFOLDED = 100_000
"""Width of a file: longer than any line."""
_LEAST_WIDTH = 20
"""Characters of a line: with fewer, tables lose columns; with none, all text is lost."""


def show(*blocks: RenderableType) -> None:
    """Print on standard output, without interpreting markup in names.

    In a file or a pipe no line is folded, unless ``COLUMNS`` gives a width (20 or more). The padding at line ends is
    removed there. Without blocks, or with ``-q``, nothing is printed.
    """
    if not blocks or is_quiet():
        return
    width = _choose_width()
    height = None if width is None else 25  # without one, rich reads COLUMNS again
    console = Console(markup=False, highlight=False, emoji=False, width=width, height=height)
    if console.is_terminal:
        console.print(*blocks, sep="\n")
        return
    with console.capture() as captured:
        console.print(*blocks, sep="\n")
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())
    sys.stdout.flush()  # where the encoding is ASCII, typer.echo has a buffer of its own


def _choose_width() -> int | None:
    """Characters of a line; None for those of the terminal."""
    given = os.environ.get("COLUMNS", "")
    if re.fullmatch("[0-9]{1,6}", given) and int(given) >= _LEAST_WIDTH:
        return int(given)
    if not sys.stdout.isatty():
        return _UNFOLDED
    return 80 if given else None  # rich would take any number of digits


def format_heading(text: str) -> Text:
    """Heading of a section."""
    return Text(to_one_line(text), "bold")


def format_paragraph(text: str, style: str = "") -> Padding:
    """Paragraph under a heading, without control characters."""
    return Padding(Text(to_one_line(text), style), (0, 0, 0, 2), expand=False)


def format_warnings(
    warnings: Sequence[str], suspects: Sequence[Diagnosis]
) -> Iterator[RenderableType]:
    """All warnings, to stand above any figure; the serious ones in red."""
    if warnings:
        yield format_heading("Warnings")
    from ptq.evaluation.diagnosis import explain_warnings

    serious = {str(suspect) for suspect in suspects if suspect.serious}
    for text, explained in zip(warnings, explain_warnings(warnings, suspects), strict=True):
        yield format_paragraph(explained, "bold red" if text in serious else "yellow")


def format_questions(*topics: Topic) -> Iterator[Padding]:
    """The command that explains figures; nothing without topics."""
    if topics:
        yield format_paragraph(f"Questions: {name_command(*topics)}")


def format_table(*columns: str, left: Iterable[str] = ()) -> Table:
    """Empty table; columns are right-aligned for numbers, except those in ``left``."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    texts = set(left)
    for name in columns:
        if name in texts:
            table.add_column(name, overflow="fold")
        else:
            table.add_column(name, justify="right")
    return table


def format_percent(share: float | None, digits: int = 2) -> str:
    """Share (0 to 1) as a percentage without the sign; a dash for None."""
    return "–" if share is None else f"{100 * share:.{digits}f}"


def format_applied(applied: AppliedPreprocess | None, *, warned: bool = False) -> Iterator[Padding]:
    """The preprocessing of a run, whether it is recorded, and what it has otherwise than the record.

    Args:
        applied: The preprocessing.
        warned: Whether warnings above say what was assumed, and what differs from the record.
    """
    if applied is None:
        return
    same = applied.recorded_by and not applied.difference
    record = {k: v for k, v in applied.record.items() if not warned or k != "assumed"}
    yield from format_record(record, applied.recorded_by if same else "")
    if applied.difference and not warned:
        yield format_paragraph(f"warning: {applied.difference}", "yellow")


def format_record(record: Record | None, origin: str = "") -> Iterator[Padding]:
    """A preprocessing, and what was assumed of it; nothing for arrays, and a warning of a damaged record.

    Args:
        record: The record; see `ptq.core.preprocess_record`.
        origin: What records it, such as ``the model``; empty if that is not said.
    """
    if record is None:
        return
    from ptq.data.preprocessing.recorded_preprocess import (  # loads onnx, which tables do not need
        RecordedPreprocess,
    )

    try:
        applied = RecordedPreprocess(record, origin or "the file").to_options()
    except DataError as error:
        yield format_paragraph(f"warning: {error}", "yellow")
        return
    if applied is None:
        return
    note = f" (as recorded by {origin})" if origin else ""
    yield format_paragraph(describe_preprocessing(applied.describe()) + note)
    if record.get("assumed"):
        yield format_paragraph(
            f"{record['assumed']}; if this is wrong, give --scale, --mean and --std", "yellow"
        )
