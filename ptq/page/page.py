"""A page: its title, warnings, cards and sections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ptq.page.blocks import Card

RunFact = tuple[str, str]
"""A name and a value: something about the run that the report does not hold, such as the command."""


@dataclass(frozen=True)
class Section:
    """One section of a page.

    Attributes:
        name: Its identifier on the page.
        title: Its heading.
        blocks: What it shows, in order; each names its template in ``kind``.
        note: One sentence under the heading: how to read it.
        short: Its title in the list of sections; empty for the whole title.
    """

    name: str
    title: str
    blocks: Sequence[object]
    note: str = ""
    short: str = ""


@dataclass(frozen=True)
class Page:
    """A page.

    Attributes:
        title: What was done, to which model.
        subtitle: One line under the title.
        warnings: What a reader must know before any figure.
        questions: The command that explains the figures.
        serious: How many of the warnings, the first ones, question all figures.
        cards: The verdict.
        sections: The sections; those without blocks are left out.
    """

    title: str
    subtitle: str
    warnings: tuple[str, ...]
    cards: tuple[Card, ...]
    sections: tuple[Section, ...]
    questions: str = ""
    serious: int = 0
