"""The option of commands that share samples among processes."""

from __future__ import annotations

from typing import Annotated

import typer

from .parsers import parse_count

Workers = Annotated[
    int,
    typer.Option(
        "--workers",
        metavar="N",
        parser=parse_count("workers", least=1),
        help="Processes that share the samples; the result stays the same, bit for bit.",
    ),
]
