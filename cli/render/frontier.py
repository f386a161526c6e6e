"""A frontier on the terminal: a table with a bar for the error of each point."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ptq.core.wording import format_decibels
from ptq.evaluation.presentation.estimate_wording import describe_frontier

from ..one_line import to_one_line
from .screen import format_heading, format_paragraph, format_table, format_warnings, show

if TYPE_CHECKING:
    from ptq.evaluation.frontier import FrontierReport

_BAR = 24


def render_frontier(result: FrontierReport, written: Path | None) -> None:
    """Print the points, in their order."""
    show(*format_warnings(result.warnings, result.suspects))
    show(
        format_heading(
            to_one_line(f"{result.model}, target {result.target}: speed against error, estimated")
        )
    )
    speed, bar = "speed\n× float", "\nspeed"
    table = format_table(
        "\npoint", "float\nfor error", speed, "SQNR\ndB", "speed\nmeasured", "SQNR\nmeasured", bar, left=[bar]
    )  # fmt: skip
    most = max(point.speed for point in result.points)
    for point in result.points:
        table.add_row(
            f"{'→ ' if point.chosen else ''}{point.number}",
            str(len(point.floats)),
            f"{point.speed:.2f}",
            format_decibels(point.sqnr_db),
            "" if point.measured_speed is None else f"{point.measured_speed:.2f}",
            "" if point.measured_sqnr_db is None else format_decibels(point.measured_sqnr_db),
            "█" * max(1, round(_BAR * point.speed / most)),
        )
    show(table)
    show(*map(format_paragraph, describe_frontier(result)))
    if written is not None:
        show(format_paragraph(to_one_line(f"Written: {written}")))
