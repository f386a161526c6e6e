"""Texts, cards, tables and matrices of a page. A template of the same name shows each of them.

Every text is escaped when the page is rendered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

Tone = Literal["", "good", "warn", "bad"]


@dataclass(frozen=True)
class Card:
    """One figure of the verdict.

    Attributes:
        label: What it is.
        value: The figure, in few characters.
        notes: What makes it precise, a line each.
        tone: Whether it is good or bad; empty for neither.
    """

    label: str
    value: str
    notes: tuple[str, ...] = ()
    tone: Tone = ""


@dataclass(frozen=True)
class Lines:
    """A list of sentences.

    Attributes:
        texts: The sentences.
        tone: Whether they are good or bad.
    """

    kind: ClassVar[str] = "lines"
    texts: tuple[str, ...]
    tone: Tone = ""


@dataclass(frozen=True)
class Facts:
    """Names with values.

    Attributes:
        rows: Pairs of name and value.
    """

    kind: ClassVar[str] = "facts"
    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Attributes:
        text: What it shows.
        order: What it is sorted by; None for the text.
        link: Address within the page; empty for none.
        bar: Length of a bar behind the text, 0 to 1; None for none.
        tone: Whether it is good or bad; also names of classes of the style sheet.
    """

    text: str
    order: float | None = None
    link: str = ""
    bar: float | None = None
    tone: str = ""


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        title: Its heading.
        numeric: Whether its cells are numbers.
        wide: Whether its texts are sentences.
    """

    title: str
    numeric: bool = False
    wide: bool = False


@dataclass(frozen=True)
class Table:
    """A table that can be sorted and, if it is long, searched.

    Attributes:
        name: Its identifier on the page.
        columns: The columns.
        rows: The cells of each row.
        choices: The column whose values a list offers as filter; None for none.
        anchors: Identifier of each row; empty for none.
    """

    kind: ClassVar[str] = "table"
    name: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    choices: int | None = None
    anchors: tuple[str, ...] = ()

    @property
    def options(self) -> tuple[str, ...]:
        """The distinct values of the column of choices, in order of appearance."""
        if self.choices is None:
            return ()
        return tuple(dict.fromkeys(row[self.choices].text for row in self.rows))


@dataclass(frozen=True)
class Matrix:
    """Counts by row and column, coloured by size.

    Attributes:
        corner: What rows and columns are.
        names: Names of rows and columns.
        counts: The counts, row by row.
        changes: What is added to each count by another model, row by row; empty if it is not known.
    """

    kind: ClassVar[str] = "matrix"
    corner: str
    names: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    changes: tuple[tuple[int, ...], ...] = ()

    @property
    def most(self) -> int:
        """The largest count."""
        return max((count for row in self.counts for count in row), default=0)


@dataclass(frozen=True)
class StripCell:
    """One cell of a strip.

    Attributes:
        style: Class of the style sheet that colours it.
        text: What it is, shown when it is pointed at.
        link: Address within the page.
    """

    style: str
    text: str
    link: str = ""


@dataclass(frozen=True)
class Strip:
    """Things in order, each a coloured cell.

    Attributes:
        label: What the strip shows, for readers that see no colours.
        cells: The cells.
        legend: Class of the style sheet and its meaning.
    """

    kind: ClassVar[str] = "strip"
    label: str
    cells: tuple[StripCell, ...]
    legend: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Fold:
    """Blocks that are shown when they are asked for.

    Attributes:
        title: What to click on.
        blocks: The blocks.
    """

    kind: ClassVar[str] = "fold"
    title: str
    blocks: Sequence[object]


@dataclass(frozen=True)
class Figure:
    """A picture with its heading.

    Attributes:
        title: Its heading.
        picture: The block that it shows.
        facts: Lines above it.
        link: Address within the page.
    """

    title: str
    picture: object
    facts: tuple[str, ...] = ()
    link: str = ""


@dataclass(frozen=True)
class Figures:
    """Small pictures side by side.

    Attributes:
        figures: The pictures.
    """

    kind: ClassVar[str] = "figures"
    figures: tuple[Figure, ...]


@dataclass(frozen=True)
class PictureBox:
    """A box on a picture; its sides are shares of the picture, 0 to 1.

    Attributes:
        style: ``reference`` or ``other``.
        left: Left side.
        top: Upper side.
        width: Width.
        height: Height.
        text: Its class and score.
    """

    style: str
    left: float
    top: float
    width: float
    height: float
    text: str


@dataclass(frozen=True)
class Exhibit:
    """One sample with several answers.

    Attributes:
        title: Its name.
        source: The picture as an address that holds the data; empty for none.
        is_small: Whether the picture has few pixels, which are shown as squares.
        boxes: Boxes on the picture.
        answers: Names and answers; an answer is pieces of text with their tags (``ins``, ``del`` or ``span``).
        pictures: Name and source of a picture of each answer.
        overlaid: Whether these lie over the picture, each over a copy of it.
    """

    title: str
    source: str
    is_small: bool
    boxes: tuple[PictureBox, ...]
    answers: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    pictures: tuple[tuple[str, str], ...] = ()
    overlaid: bool = False


@dataclass(frozen=True)
class Gallery:
    """Samples side by side.

    Attributes:
        exhibits: The samples.
        legend: Class of the style sheet and its meaning.
    """

    kind: ClassVar[str] = "gallery"
    exhibits: tuple[Exhibit, ...]
    legend: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Legend:
    """Colours with their meanings.

    Attributes:
        entries: Class of the style sheet and its meaning.
    """

    kind: ClassVar[str] = "legend_block"
    entries: tuple[tuple[str, str], ...]
