"""Gates: a result that is complete, but fails what the user demands of it, ends with exit code 3."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from ptq.core.errors import BudgetError

from .github import write_annotations
from .one_line import one_line

if TYPE_CHECKING:
    from ptq.evaluation.budget import Budget


def exit_unless_held(require: Callable[[], None]) -> None:
    """End the command with one line on standard error if a budget is not shown to hold.

    The results are written before. So this is no error that would take their place.

    Raises:
        typer.Exit: The budget is exceeded or undecided; exit code 3.
    """
    try:
        require()
    except BudgetError as error:
        text = one_line(str(error))
        typer.echo(f"error: {text}", err=True)
        write_annotations("error", [text])
        raise typer.Exit(error.exit_code) from None


def exit_if_too_slow(shortfall: str) -> None:
    """End the command if the model is slower than was asked for; ``shortfall`` says so, or is empty.

    Raises:
        typer.Exit: It is slower; exit code 3.
    """
    if shortfall:
        typer.echo(f"error: {one_line(shortfall)}", err=True)
        write_annotations("error", [shortfall])
        raise typer.Exit(3)


def exit_if_exceeded(budget: Budget, *, strict: bool) -> None:
    """End the command if a measured drop exceeds its budget, or with ``strict`` if it may.

    Raises:
        typer.Exit: The budget is not kept; exit code 3.
    """
    if strict:
        exit_unless_held(budget.require_held)
    if budget.verdict == "exceeded":
        write_annotations("error", [budget.sentence])
        raise typer.Exit(3)
