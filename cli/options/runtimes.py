"""The option that chooses the runtime of a model, with its help."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import typer

RuntimeName = Literal[
    "ort", "integer", "openvino", "litert", "qnn", "ort-xnnpack", "ort-cuda", "ort-openvino"
]
"""Copy of the names of ptq, because importing ptq takes a second; a test compares them."""
OTHER_RUNTIMES = [name for name in get_args(RuntimeName) if name not in ("ort", "integer")]
OtherRuntime = Annotated[
    RuntimeName | None,
    typer.Option(
        "--runtime",
        metavar="NAME",
        parser=str,
        help=f"Another runtime to compare with: {', '.join(OTHER_RUNTIMES)}. qnn is the emulator of Qualcomm's HTP. "
        "docs/targets.md says what to install.",
    ),
]
Runtime = Annotated[
    RuntimeName | None,
    typer.Option(
        "--runtime",
        metavar="NAME",
        parser=str,
        help=f"What runs the model: {', '.join(get_args(RuntimeName))}. By default ort, ONNX Runtime on the "
        "CPU, and litert for a .tflite file. integer is ptq's integer executor, qnn the emulator of Qualcomm's HTP. "
        "docs/targets.md says what to install.",
    ),
]
