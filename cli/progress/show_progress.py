"""Progress on standard error: one bar for the whole job, or lines where standard error is no terminal."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from ..one_line import to_one_line
from ..verbosity import is_quiet, is_verbose
from .progress_lines import ProgressLines
from .progress_state import ProgressState, Snapshot, describe_steps

_TICK = 1.0
"""Seconds after which lines without a terminal look at the clock."""


@contextmanager
def show_progress() -> Iterator[ProgressState | None]:
    """Yield the progress callback for the verbs of ptq; None with ``-q``, and with ``-v``, which logs the stages.

    The bar vanishes when the work ends, so that standard error holds only errors. Without a terminal a job of less
    than 30 s writes nothing.
    """
    if is_quiet() or is_verbose():
        yield None
        return
    console = Console(stderr=True, markup=False, highlight=False, emoji=False)
    if sys.stderr.isatty() and not console.is_dumb_terminal:
        with show_bar(console) as state:
            yield state
    else:
        with write_lines() as state:
            yield state


@contextmanager
def show_bar(console: Console) -> Iterator[ProgressState]:
    """Yield a callback that moves one bar: stage, steps and rate; share of the whole, or of the stage; time left."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    ) as progress:
        bar = progress.add_task("preparing", total=None)

        def observe(now: Snapshot) -> None:
            nonlocal bar
            starts, text = not now.steps, describe_steps(now)
            total, done = (now.total, now.done) if now.expected else (now.of, now.steps)
            if (
                starts and not now.expected
            ):  # a bar would keep the time and total of the stage before
                progress.remove_task(bar)
                bar = progress.add_task(text, total=None)
            progress.update(
                bar, description=text, total=total or None, completed=done, refresh=starts
            )

        state = ProgressState(observe)
        yield state
        state.finish()


@contextmanager
def write_lines() -> Iterator[ProgressState]:
    """Yield a callback that writes lines, and let a thread look at the clock until the work ends."""
    lines = ProgressLines(lambda line: typer.echo(to_one_line(line), err=True))
    state, ended = ProgressState(lines.observe), threading.Event()

    def watch() -> None:
        while not ended.wait(_TICK):
            lines.observe(state.snapshot())

    watcher = threading.Thread(target=watch, name="ptq-progress", daemon=True)
    watcher.start()
    try:
        yield state
    finally:
        ended.set()
        watcher.join()
