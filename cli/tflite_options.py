"""Options of `.tflite` files that several commands share, with their help."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from .parsers import parse_count

_IO = Literal["float", "int8", "float16"]
InputOutputType = Annotated[
    _IO,
    typer.Option(
        "--io",
        metavar="float|int8|float16",
        parser=str,
        help="Element type of inputs and outputs of a .tflite file; int8 leaves out the quantizers at its border.",
    ),
]
StaticBatch = Annotated[
    int | None,
    typer.Option(
        "--static-batch",
        metavar="N",
        parser=parse_count("static_batch", least=1),
        help="Batch of a .tflite file. Without it the batch stays open if every operator allows that, else it is 1.",
    ),
]
