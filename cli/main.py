"""Which commands are there? Each parses its options, calls one verb of ptq.api, and prints its result.

ptq itself is imported inside the commands: ``--help`` needs none of it, and it takes a second.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from . import options as o
from .calibrate import calibrate
from .edge import prepare_process, run
from .foreign import convert, lint
from .images import PREPROCESSING_HELP
from .measure import evaluate, verify
from .quantize import quantize
from .sensitivity import sensitivity

app = typer.Typer(
    name="ptq",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run ``ptq`` on the arguments of the process and leave with its exit code."""
    prepare_process()
    sys.exit(run(app))


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"ptq {version('onnx-ptq')}")
        raise typer.Exit


@app.callback()
def ptq(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Post-training quantization for ONNX models, with its cost measured.

    Exit codes: 0 done; 1 the model or the data; 2 usage; 3 the accuracy budget is exceeded;
    130 interrupted; 143 terminated.
    """


def inspect(
    model: o.Model, target: o.Target = "ort", skip: o.Skip = None, json: o.Json = None
) -> None:
    """Say what will be quantized, before any data.

    And what stays float, and why.
    """
    from ptq import api

    from . import outputs, tables

    outputs.check_outputs([model], [], json)
    inspection = api.inspect(model, target=target, skip=skip or ())
    if not outputs.write_json(outputs.to_json(inspection), json):
        tables.render_inspection(inspection)


def ops(json: o.Json = None) -> None:
    """Print the table of operators.

    What is quantized and how, in which form in ONNX Runtime and in LiteRT, and what computes it.
    """
    from . import outputs, tables
    from .optable import list_op_rows

    outputs.check_outputs([], [], json)
    rows = list_op_rows()
    if not outputs.write_json(outputs.to_json(rows), json):
        tables.render_operators(rows)


app.command(epilog=PREPROCESSING_HELP)(quantize)
app.command(epilog=PREPROCESSING_HELP)(calibrate)
app.command()(inspect)
app.command(epilog=PREPROCESSING_HELP)(evaluate)
app.command(epilog=PREPROCESSING_HELP)(verify)
app.command(epilog=PREPROCESSING_HELP)(sensitivity)
app.command()(convert)
app.command()(lint)
app.command()(ops)
