"""How does the user see that long work goes on? By bars on standard error, if that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

ProgressCallback = Callable[[str, int | None], Callable[[], None]]


@contextmanager
def show_progress() -> Iterator[ProgressCallback | None]:
    """What ptq's verbs tell their progress; None where nobody would see it.

    Bars vanish when the work ends: standard error then holds errors only.
    """
    console = Console(stderr=True, markup=False, highlight=False, emoji=False)
    if not sys.stderr.isatty() or console.is_dumb_terminal:
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
            for before in progress.tasks:  # one stage follows another: what had fewer steps is over
                progress.update(before.id, total=before.completed)
            task = progress.add_task(stage, total=total)
            return lambda: progress.advance(task)

        yield begin
