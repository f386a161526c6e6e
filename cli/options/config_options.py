"""Options ``--config`` and ``--save-config`` of every command, and ``ptq init``."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from ..invocation import get_long_name
from ..verbosity import is_quiet

STARTER = """\
# Options of ptq. The command line comes before this file, and this file before the defaults.
# Keys are the long names of options; a - may be a _. `ptq COMMAND --help` lists them.
# Paths start at the folder in which ptq runs.

# Options that several commands have:
# data = "images/calibration"
# mean = [0.485, 0.456, 0.406]
# std = [0.229, 0.224, 0.225]
# threads = 0

[quantize]
# eval = "images/evaluation"
# target = "ort"
# format = "qdq"
# max-drop = 1.0
# skip = ["NODE", "OPERATOR"]
# report = "report.html"
# json = "report.json"

# Options for one target only:
# [quantize.targets.tensorrt]
# per-tensor = false

[calibrate]
# workers = 2
# checkpoint = "calibration.checkpoint"

[verify]
# arithmetic = "ort"
"""


def _set_defaults(ctx: typer.Context, given: Path | None) -> Path | None:
    from .config_file import ConfiguredDefaults, find_config

    path = given or find_config()
    if path is not None:
        ctx.default_map = ConfiguredDefaults(ctx, path)
        if given is None and not is_quiet():
            typer.echo(f"options from {path}", err=True)
    return path


def _check_saved(given: Path | None) -> Path | None:
    from ptq.core import files
    from ptq.core.errors import UsageError

    if given is not None:
        if os.path.exists(given):
            raise UsageError(f"{given} exists; --save-config replaces no file, give another name")
        files.check_writable(given)
    return given


Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        is_eager=True,
        callback=_set_defaults,
        help="Take options from this TOML file; by default from ptq.toml or [tool.ptq] in pyproject.toml "
        "of the current folder.",
    ),
]
SaveConfig = Annotated[
    Path | None,
    typer.Option(
        "--save-config",
        metavar="FILE",
        callback=_check_saved,
        help="Write the options of this run that are not defaults to a new TOML file.",
    ),
]


def add_config_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--config`` and ``--save-config`` to a command."""
    own = inspect.signature(command, eval_str=True)
    added = inspect.signature(_own_options, eval_str=True).parameters

    def configured(ctx: typer.Context, **arguments: Any) -> None:
        arguments.pop("config")
        path = arguments.pop("save_config")
        if path is not None:
            from ptq.core import files

            files.write(path, "".join(_describe_options(ctx)).encode())
        command(**arguments)

    parameters = [
        p.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for p in (*own.parameters.values(), *added.values())
    ]
    configured.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined] # typer reads it
    configured.__annotations__ = {}
    configured.__name__, configured.__doc__ = command.__name__, command.__doc__
    return configured


def _own_options(
    *, ctx: typer.Context, config: Config = None, save_config: SaveConfig = None
) -> None:
    """The options that are added."""


def _describe_options(ctx: typer.Context) -> Iterator[str]:
    """Lines of a TOML file: the options that are not defaults."""
    from .config_file import NOT_IN_FILES

    yield f"[{ctx.info_name}]\n"
    for parameter in ctx.command.params:
        name, value = get_long_name(parameter), ctx.params.get(str(parameter.name))
        if parameter.param_type_name != "option" or name in NOT_IN_FILES:
            continue
        if value not in (None, [], (), parameter.default):
            yield f"{name} = {_to_toml(value, name)}\n"


def _to_toml(value: Any, name: str) -> str:
    """A value in TOML; JSON texts are TOML texts, but for the character DEL."""
    from ptq.core.errors import UsageError

    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_to_toml(item, name) for item in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)
    text = json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"--{name} is not text that a TOML file can hold; rename the file"
        ) from None
    return text


def write_starter(
    path: Annotated[Path, typer.Argument(metavar="[FILE]", help="The file to write.")] = Path(
        "ptq.toml"
    ),
) -> None:
    """Write a file of options to start with.

    All options in it are comments. Every command reads ptq.toml in the current folder.
    """
    from ptq.core import files
    from ptq.core.errors import UsageError

    if os.path.exists(path):
        raise UsageError(f"{path} exists; ptq init replaces no file, give another name")
    files.check_writable(path)
    files.write(path, STARTER.encode())
    typer.echo(f"Written: {path}")
