"""Gates: a result that is complete, but fails what the user demands of it, ends with exit code 3."""

from __future__ import annotations

from collections.abc import Callable

import typer

from ptq.core.errors import BudgetError

from .one_line import one_line


def exit_unless_held(require: Callable[[], None]) -> None:
    """End the command with one line on standard error if a budget is not shown to hold.

    The results are written before. So this is no error that would take their place.

    Raises:
        typer.Exit: The budget is exceeded or undecided; exit code 3.
    """
    try:
        require()
    except BudgetError as error:
        typer.echo(f"error: {one_line(str(error))}", err=True)
        raise typer.Exit(error.exit_code) from None
