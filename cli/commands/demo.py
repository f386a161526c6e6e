"""Command ``ptq demo``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from ..package_files import find_package_file

SAMPLE_PACKAGE = "ptq_sample"
"""The sample data in an installed wheel; in a checkout they are the folder ``sample_data``."""
_MODEL = "fashion_mobilenet.onnx"
_OUTPUT, _PAGE = "demo.int8.onnx", "demo.html"


def demo(
    ctx: typer.Context,
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="Where the model and the page are written."),
    ] = Path(),
) -> None:
    """Quantize the sample, a small network with real images.

    This takes about ten seconds. It runs ptq quantize on Fashion-MNIST and prints that command first. It
    writes demo.int8.onnx and demo.html, the page of the report, into FOLDER; the current folder by default.
    """
    from ptq.core.errors import UsageError

    from .. import outputs

    sample = _find_sample()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{folder}: cannot be made ({reason}); give a folder") from None
    made = [folder / _OUTPUT, folder / _PAGE]
    outputs.check_outputs([sample / _MODEL], made)
    arguments = [
        "quantize", str(sample / _MODEL),
        "--data", str(sample / "images" / "calibration"),
        "--eval", str(sample / "images" / "evaluation"),
        "--mean", "0.2860", "--std", "0.3530",
        "-o", str(made[0]), "--report", str(made[1]),
    ]  # fmt: skip
    typer.echo(f"$ {shlex.join(['ptq', *arguments])}")
    root = ctx.find_root().command
    code = root.main(arguments, prog_name="ptq", standalone_mode=False)
    if code:
        raise typer.Exit(code)
    typer.echo(f"Page: {made[1]}. Open it in a browser.")


def _find_sample() -> Path:
    """The folder of the sample data.

    Raises:
        UsageError: It is neither installed nor beside the package.
    """
    from ptq.core.errors import UsageError

    model = find_package_file(SAMPLE_PACKAGE, "sample_data", _MODEL)
    if model is None:
        raise UsageError(
            "the sample data are not installed; run ptq demo in a checkout, or install the wheel again"
        )
    return model.parent
