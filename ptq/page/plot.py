"""A plot of points and lines, as coordinates that a template draws as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ptq.page.axis import Axis, choose_axis

WIDTH, HEIGHT = 860, 300
LEFT, RIGHT, TOP, BOTTOM = 58, 16, 14, 46


@dataclass(frozen=True)
class Point:
    """One point of a plot.

    Attributes:
        x: Its value across.
        y: Its value up; infinite values are drawn at the upper edge.
        text: What it is, shown when it is pointed at.
        style: Class of the style sheet.
        link: Address within the page.
        label: A text beside it.
    """

    x: float
    y: float
    text: str
    style: str = ""
    link: str = ""
    label: str = ""


@dataclass(frozen=True)
class Mark:
    """A point at its place in the picture.

    Attributes:
        point: The point.
        left: Pixels from the left edge.
        top: Pixels from the upper edge.
    """

    point: Point
    left: float
    top: float


@dataclass(frozen=True)
class Plot:
    """A plot.

    Attributes:
        label: What it shows, for readers that see no picture.
        across: The axis across; an axis without ticks shows only its label.
        up: The axis up.
        marks: The points.
        line: Corners of a line through the points of one series.
        legend: Class of the style sheet and its meaning.
    """

    kind: ClassVar[str] = "plot"
    label: str
    across: Axis
    up: Axis
    marks: tuple[Mark, ...]
    line: str
    legend: tuple[tuple[str, str], ...]
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def ticks_across(self) -> list[tuple[float, str]]:
        """Pixels and texts of the ticks across."""
        ticks = self.across.ticks
        return [(round(self.across.locate(v, LEFT, WIDTH - RIGHT), 1), text) for v, text in ticks]

    @property
    def ticks_up(self) -> list[tuple[float, str]]:
        """Pixels and texts of the ticks up."""
        ticks = self.up.ticks
        return [(round(self.up.locate(v, HEIGHT - BOTTOM, TOP), 1), text) for v, text in ticks]


def build_plot(
    label: str,
    across: str,
    up: str,
    points: Sequence[Point],
    *,
    line: Sequence[Point],
    legend: Sequence[tuple[str, str]],
    numbered: bool = True,
) -> Plot:
    """Place points in a picture.

    Args:
        label: What the plot shows.
        across: Label of the axis across.
        up: Label of the axis up.
        points: The points.
        line: The points that a line joins.
        legend: Class of the style sheet and its meaning.
        numbered: Whether the axis across has numbers; without, its values are only an order.
    """
    x_axis = choose_axis(across, [point.x for point in points])
    if not numbered:
        values = [point.x for point in points]
        x_axis = Axis(across, min(values) - 1, max(values) + 1, ())
    y_axis = choose_axis(up, [point.y for point in points])

    def place(point: Point) -> Mark:
        y = point.y if math.isfinite(point.y) else y_axis.hi
        left = x_axis.locate(point.x, LEFT, WIDTH - RIGHT)
        return Mark(point, round(left, 1), round(y_axis.locate(y, HEIGHT - BOTTOM, TOP), 1))

    corners = " ".join(f"{m.left:g},{m.top:g}" for m in map(place, line))
    return Plot(label, x_axis, y_axis, tuple(map(place, points)), corners, tuple(legend))
