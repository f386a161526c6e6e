"""What do all results on the terminal have in common: console, tables, paragraphs, numbers?"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from .one_line import one_line


def show(*blocks: RenderableType) -> None:
    """Print on standard output; what looks like markup in a name is the name.

    In a file or a pipe lines end where their text ends, without rich's padding.
    """
    console = Console(markup=False, highlight=False, emoji=False)
    if console.is_terminal:
        console.print(*blocks, sep="\n")
        return
    with console.capture() as captured:
        console.print(*blocks, sep="\n")
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def format_heading(text: str) -> Text:
    """A line that opens a part of the result."""
    return Text(one_line(text), "bold")


def format_paragraph(text: str, style: str = "") -> Padding:
    """A paragraph under a heading; control characters are taken out."""
    return Padding(Text(one_line(text), style), (0, 0, 0, 2), expand=False)


def format_table(*columns: str, left: Iterable[str] = ()) -> Table:
    """An empty table; columns hold numbers, right-aligned, but for those in ``left``."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    texts = set(left)
    for name in columns:
        if name in texts:
            made.add_column(name, overflow="fold")
        else:
            made.add_column(name, justify="right")
    return made


def format_percent(share: float | None, digits: int = 2) -> str:
    """A share of 1 as a percentage without its sign; a dash where there is none."""
    return "–" if share is None else f"{100 * share:.{digits}f}"


def format_decibels(value: float) -> str:
    """A level in dB; ∞ where there is no error."""
    return "∞" if value == math.inf else f"{value:.1f}"


def format_size(count: int) -> str:
    """A number of bytes, in decimal units."""
    if count < 1_000_000:
        return f"{count / 1e3:.1f} kB"
    return f"{count / 1e6:.1f} MB"


def counted(number: int, noun: str) -> str:
    """``1 node``, ``2 nodes``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def format_tally(names: Iterable[str]) -> str:
    """``3 Conv, 1 Add``: each name with its number, the most frequent first."""
    return ", ".join(f"{count} {name}" for name, count in Counter(names).most_common())


def format_preprocessing(applied: Mapping[str, Any]) -> str:
    """What was done to images, in the order in which it was."""
    return "images: " + ", ".join(_format_operation(name, value) for name, value in applied.items())


def _format_operation(name: str, value: Any) -> str:
    if name in ("size", "crop"):
        return f"{'resized to' if name == 'size' else 'centre cropped to'} {value[0]}×{value[1]}"
    if name == "resize":
        return f"shorter side resized to {value}"
    if name == "scale":
        return "× 1/255" if value == 1 / 255 else f"× {value:g}"
    if name in ("mean", "std"):
        return f"{'−' if name == 'mean' else '÷'} ({', '.join(f'{v:g}' for v in value)})"
    return str(value)
