"""``ptq lint`` for several files, for pre-commit: python -m ptq_cli.lint_files [OPTION ...] FILE ..."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from itertools import islice

import typer
from typer.main import get_command

from .commands.lint import lint
from .options.config_options import add_config_options


def main() -> None:
    """Lint each file in its own process; exit with the largest exit code."""
    options, files = _split_arguments(sys.argv[1:])
    codes = [
        subprocess.run(
            [sys.executable, "-m", "ptq_cli", "lint", file, *options], check=False
        ).returncode
        for file in files
    ]
    sys.exit(max(codes, default=0))


def _split_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The options of ``ptq lint`` with their values, and the files."""
    app = typer.Typer()
    app.command()(add_config_options(lint))
    options = [p for p in get_command(app).params if isinstance(p, typer.core.TyperOption)]
    with_value = {name for option in options if not option.is_flag for name in option.opts}
    given: list[str] = []
    files: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        (given if argument.startswith("-") else files).append(argument)
        if argument in with_value:
            given += islice(rest, 1)
    return given, files


if __name__ == "__main__":
    main()
