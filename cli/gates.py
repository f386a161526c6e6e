"""Gates: a result that is complete, but fails what the user demands of it, ends with exit code 3."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import typer

from ptq.core.errors import BudgetError, UsageError

from .github import write_annotations
from .one_line import to_one_line

if TYPE_CHECKING:
    from ptq.evaluation.drop import Budget


def require_gate(strict: bool, *limits: float | None) -> None:
    """Check that ``strict`` has a limit that it makes stricter.

    Raises:
        UsageError: All limits are None.
    """
    if strict and all(limit is None for limit in limits):
        raise UsageError("--strict needs an accuracy budget; give --max-drop")


def exit_if_too_slow(shortfall: str) -> None:
    """End the command if the model is slower than was asked for; ``shortfall`` says so, or is empty.

    Raises:
        typer.Exit: It is slower; exit code 3.
    """
    if shortfall:
        _exit(shortfall)


def exit_if_exceeded(budget: Budget, *, strict: bool) -> None:
    """End the command if a measured drop exceeds its budget, or with ``strict`` if it may.

    Raises:
        typer.Exit: The budget is not kept; exit code 3.
    """
    if budget.verdict == "exceeded" or (strict and budget.verdict == "undecided"):
        _exit(budget.sentence)


def _exit(why: str) -> NoReturn:
    """End with one line on standard error. The result is written before, so no error takes its place."""
    typer.echo(f"error: {to_one_line(why)}", err=True)
    write_annotations("error", [why])
    raise typer.Exit(BudgetError.exit_code)
