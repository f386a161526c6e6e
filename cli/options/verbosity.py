"""Options ``-v`` and ``-q``, and the lines of the log on standard error."""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from ..one_line import to_one_line
from ..verbosity import QUIET, ErrorStreamHandler, is_quiet, is_verbose

_LEVELS = (logging.INFO, logging.DEBUG)
"""Log level of one -v, and of two or more."""


class _LineFormatter(logging.Formatter):
    """The level and the message on one line, without control characters of names in it."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{record.levelname.lower()}: {to_one_line(record.getMessage())}"


def _set_verbose(count: int) -> int:
    if count:
        handler = ErrorStreamHandler(sys.stderr)
        handler.setFormatter(_LineFormatter())
        logger = logging.getLogger("ptq")
        logger.addHandler(handler)
        logger.setLevel(_LEVELS[min(count, len(_LEVELS)) - 1])
        _refuse_both()
    return count


def _set_quiet(wanted: bool) -> bool:
    if wanted:
        QUIET.set(True)
        _refuse_both()
    return wanted


def _refuse_both() -> None:
    from ptq.core.errors import UsageError

    if is_quiet() and is_verbose():
        raise UsageError("-v and -q contradict each other; give one of them")


def _own_options(
    *,
    verbose: Annotated[
        int,
        typer.Option(
            "--verbose",
            "-v",
            count=True,
            is_eager=True,
            callback=_set_verbose,
            show_default=False,
            help="Log stages and decisions on standard error; -vv logs single steps and float nodes too.",
        ),
    ] = 0,
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            "-q",
            is_eager=True,
            callback=_set_quiet,
            help="Print nothing but errors and the document of --json -; files are written as without it.",
        ),
    ] = False,
) -> None:
    """The options that are added."""


def add_verbosity_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``-v`` and ``-q`` to a command; their callbacks act before it runs."""
    own = inspect.signature(command, eval_str=True)
    added = inspect.signature(_own_options, eval_str=True).parameters

    def verbose_or_quiet(**arguments: Any) -> None:
        for name in added:
            arguments.pop(name)
        command(**arguments)

    parameters = [
        p.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for p in (*own.parameters.values(), *added.values())
    ]
    verbose_or_quiet.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined] # typer reads it
    verbose_or_quiet.__annotations__ = {}
    verbose_or_quiet.__name__, verbose_or_quiet.__doc__ = command.__name__, command.__doc__
    return verbose_or_quiet
