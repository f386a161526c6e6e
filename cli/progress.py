"""Progress bars on standard error, if it is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from .verbosity import is_quiet, is_verbose

ProgressCallback = Callable[[str, int | None], Callable[[], None]]


@contextmanager
def show_progress() -> Iterator[ProgressCallback | None]:
    """Yield the progress callback for the verbs of ptq; None without a terminal, with ``-q`` and with ``-v``.

    Bars vanish when the work ends, so that standard error holds only errors.
    """
    console = Console(stderr=True, markup=False, highlight=False, emoji=False)
    hidden = is_quiet() or is_verbose()
    if hidden or not sys.stderr.isatty() or console.is_dumb_terminal:
        yield None
        return
    with Progress(
        TextColumn("{task.description:12}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    ) as progress:

        def begin(stage: str, total: int | None) -> Callable[[], None]:
            # stages run one after the other: earlier bars are complete, even with fewer steps than announced
            for earlier in progress.tasks:
                progress.update(earlier.id, total=earlier.completed)
            task = progress.add_task(stage, total=total)
            return lambda: progress.advance(task)

        yield begin
