"""Options of inputs and outputs that several commands share, with their help."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from .parsers import parse_count

_IO = Literal["float", "int8", "float16"]
_KIND = "Element type of inputs and outputs. int8:"
_HALVES = "without the quantizers at the border. float16: halves."
_TYPES = f"{_KIND} the integers of the target, such as uint8, {_HALVES}"
_TFLITE_TYPES = f"Only for .tflite files. {_KIND} its integers, {_HALVES}"
_BATCH = (
    "Batch of the quantized model. Without it the batch stays open; a .tflite file has 1 if an operator does not "
    "allow that."
)


def _describe_io(text: str) -> Any:
    return typer.Option("--io", metavar="float|int8|float16", parser=str, help=text)


def _describe_batch(text: str) -> Any:
    parser = parse_count("static_batch", least=1)
    return typer.Option("--static-batch", metavar="N", parser=parser, help=text)


InputOutputType = Annotated[_IO, _describe_io(_TYPES)]
StaticBatch = Annotated[int | None, _describe_batch(_BATCH)]
ConvertedType = Annotated[_IO, _describe_io(_TFLITE_TYPES)]
ConvertedBatch = Annotated[int | None, _describe_batch(f"Only for .tflite files. {_BATCH}")]
