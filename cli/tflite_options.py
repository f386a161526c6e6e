"""Options of inputs and outputs that several commands share, with their help."""

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
        help="Element type of inputs and outputs. int8: the integers of the target, such as uint8, without the "
        "quantizers at the border. float16: halves.",
    ),
]
StaticBatch = Annotated[
    int | None,
    typer.Option(
        "--static-batch",
        metavar="N",
        parser=parse_count("static_batch", least=1),
        help="Batch of the quantized model. Without it the batch stays open; a .tflite file has 1 if an operator "
        "does not allow that.",
    ),
]
