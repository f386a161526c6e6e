"""Times of several models on the terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ptq.core.wording import format_size, plural
from ptq.executor.runtimes.registry import RUNTIMES

from ..one_line import to_one_line
from .screen import format_heading, format_paragraph, format_questions, format_table, show

if TYPE_CHECKING:
    from ptq.api.benchmark import Benchmark


def render_benchmark(result: Benchmark) -> None:
    """Print a row for each model, and the reasons for slow integers."""
    shapes = ", ".join(f"{name} {'×'.join(map(str, s))}" for name, s in result.shapes.items())
    inputs, guess = plural(result.samples, "sample"), ""
    if not result.samples:
        inputs = "inputs made from shapes"
        guess = "; sizes that the model leaves open are guesses: --data measures yours"
    threads = plural(result.threads, "thread") if result.threads else "one thread a core"
    where = "" if result.runtime == "ort" else f" in {RUNTIMES[result.runtime].title}"
    show(
        format_heading(
            f"{plural(len(result.models), 'model')}{where}, {plural(result.rounds, 'round')} in turns, {threads}"
        ),
        format_paragraph(to_one_line(f"{inputs}: {shapes}") + guess),
    )
    table = format_table(
        "\nmodel", "\nsize", "load\nms", "run\nms", "\n(95 % CI)", "\nspeed", "\n(95 % CI)", "peak\nmemory",
        left=["\nmodel"],
    )  # fmt: skip
    for timed in result.models:
        table.add_row(
            to_one_line(timed.model),
            format_size(timed.bytes),
            f"{timed.load_ms:.0f}",
            f"{timed.run_ms:.3g}",
            _format_interval(timed.run_interval),
            "1×" if timed.speed is None else f"{timed.speed:.2f}×",
            _format_interval(timed.speed_interval),
            "" if timed.peak_bytes is None else format_size(timed.peak_bytes),
        )
    show(table)
    for timed in result.models:
        show(*(format_paragraph(to_one_line(f"{timed.model}: {reason}")) for reason in timed.slow))
    if any(timed.speed_interval and timed.speed_interval[1] < 1 for timed in result.models):
        show(*format_questions("slower-than-float"))


def _format_interval(interval: tuple[float, float] | None) -> str:
    """An interval; empty if there were too few rounds for one."""
    if interval is None or not math.isfinite(interval[1]):
        return ""
    return f"{interval[0]:.3g} … {interval[1]:.3g}"
