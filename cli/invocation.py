"""The running command: its name, its options, and where its JSON result goes.

A context variable holds it, so that documents and errors can name it without a parameter in every command.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

import typer

STANDARD_OUTPUT = "-"
_OMITTED = frozenset({"help", "json", "verbose", "quiet"})
"""Options that say nothing about the result."""
_SOURCES = frozenset({"data", "eval"})
"""Options that name a file, a folder, or ``module:callable``."""
_OUTPUTS = frozenset(
    {
        "also",
        "checkpoint",
        "output",
        "plot",
        "report",
        "save",
        "save-config",
        "save-plan",
        "summary",
    }
)
"""Options that name a file or folder to write; what was there before says nothing about the result."""


@dataclass
class Invocation:
    """One run of a command.

    Attributes:
        command: Name of the command; empty before the command line is read.
        options: Every option and argument that has a value, by its long name; as given, so that files are found.
        files: Names of the options whose values are paths of files that the command reads.
        json: The checked place of the JSON result; None before the check, or without ``--json``.
        arguments: The command line without the name of the program; empty for that of the process.
        configured: Names of the options that a file of options sets.
        config: That file; empty without one.
        stdout: Where a JSON result of place ``-`` goes; None for standard output.
    """

    command: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    files: frozenset[str] = frozenset()
    json: str | None = None
    arguments: tuple[str, ...] = ()
    configured: frozenset[str] = frozenset()
    config: str = ""
    stdout: TextIO | None = None


_current: ContextVar[Invocation] = ContextVar("invocation")


def get_current_invocation() -> Invocation:
    """The running command; an empty one outside of the command line."""
    return _current.get(Invocation())


def describe_origin(option: str) -> str:
    """``, which ptq.toml sets`` for an option that a file of options sets; else empty."""
    invocation = get_current_invocation()
    return f", which {invocation.config} sets" if option in invocation.configured else ""


def reset_invocation(arguments: Sequence[str] | None) -> None:
    """Forget the command that ran before in this process; ``arguments`` are those of the next one."""
    _current.set(Invocation(arguments=tuple(arguments or ())))


def find_json_place(arguments: Sequence[str]) -> str | None:
    """Where an error goes as JSON.

    A file is named only if it was checked not to be an input, or if it does not exist yet.

    Args:
        arguments: The command line, for errors that happen before it is read.
    """
    checked = get_current_invocation().json
    if checked is not None:
        return checked
    place = None
    for position, argument in enumerate(arguments):
        if argument == "--json" and position + 1 < len(arguments):
            place = arguments[position + 1]
        elif argument.startswith("--json="):
            place = argument.partition("=")[2]
    if place in (None, "", STANDARD_OUTPUT):
        return place or None
    return None if os.path.lexists(place) else place


def record_invocation(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command that takes ``ctx`` remember its name and options before it runs."""
    own = inspect.signature(command, eval_str=True)

    def recorded(ctx: typer.Context, **arguments: Any) -> None:
        _current.set(replace(_describe(ctx), arguments=get_current_invocation().arguments))
        if arguments.get("json") != STANDARD_OUTPUT:
            command(ctx=ctx, **arguments)
            return
        get_current_invocation().stdout = sys.stdout
        with redirect_stdout(sys.stderr):  # what the user's code prints must not end in the JSON
            command(ctx=ctx, **arguments)

    recorded.__signature__ = own  # type: ignore[attr-defined] # typer reads it
    recorded.__annotations__ = {}
    recorded.__name__, recorded.__doc__ = command.__name__, command.__doc__
    return recorded


def get_long_name(parameter: Any) -> str:
    """Name of an option as users write it, without dashes; the name of an argument."""
    names = [name for name in parameter.opts if name.startswith("--")]
    return names[0].removeprefix("--") if names else str(parameter.name)


def _describe(ctx: typer.Context) -> Invocation:
    values = {get_long_name(p): ctx.params.get(str(p.name)) for p in ctx.command.params}
    given = {n: v for n, v in values.items() if v is not None and n not in _OMITTED}
    return Invocation(
        command=ctx.info_name or "",
        options=given,
        files=(_SOURCES & given.keys() | {n for n, v in given.items() if _has_paths(v)}) - _OUTPUTS,
        configured=frozenset(
            get_long_name(p) for p in ctx.command.params if _is_configured(ctx, p)
        ),
        config=str(getattr(ctx.default_map, "path", "")),
    )


def _is_configured(ctx: typer.Context, parameter: Any) -> bool:
    source = ctx.get_parameter_source(str(parameter.name))
    return source is not None and source.name == "DEFAULT_MAP"


def _has_paths(value: Any) -> bool:
    values = value if isinstance(value, (list, tuple)) else [value]
    return any(isinstance(v, Path) for v in values)
