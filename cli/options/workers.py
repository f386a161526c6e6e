"""Options of commands that share samples among processes and machines."""

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
        help="Processes that share the samples; the result is that of one process with as many threads, bit for bit.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="URL",
        help="Run samples on the workers of a cluster: tcp://host:port of a Dask scheduler (tls:// with certificates "
        "in Dask's settings), or ray://host:port. They read the data themselves; the result stays the same, bit for "
        "bit.",
    ),
]
