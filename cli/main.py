"""Application and its commands; each parses options, calls one verb of ptq, and prints the result.

Commands import ptq in their bodies: the import takes a second, and ``--help`` does not need it.
"""

from __future__ import annotations

import gc
import sys
from typing import Annotated

import typer

from . import options as o
from .benchmark import benchmark
from .calibrate import calibrate
from .compare import compare
from .configure import add_config_options, write_starter
from .convert import convert
from .demo import demo
from .evaluate import evaluate
from .explain import explain
from .frontier import frontier
from .images import PREPROCESSING_HELP
from .invocation import record_invocation
from .lint import lint
from .process import prepare_process, run
from .quantize import quantize
from .sensitivity import sensitivity
from .tune import tune
from .verbosity_options import add_verbosity_options
from .verify import verify

app = typer.Typer(
    name="ptq",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run ``ptq`` with the arguments of the process and exit with its exit code."""
    prepare_process()
    code = run(app)
    gc.freeze()  # no search for garbage in a process that ends
    sys.exit(code)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"ptq {version('onnx-ptq')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def ptq(
    ctx: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Post-training quantization for ONNX models, with measured accuracy.

    Exit codes: 0 done; 1 problem with the model or the data, a difference that verify found, or an error
    that lint found; 2 wrong usage; 3 accuracy budget exceeded (with --strict also undecided), slower than
    --min-speedup, or result larger and slower than float; 130 interrupted; 143 terminated.
    """
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


def inspect(
    model: o.AnyModel,
    target: o.Target = "ort",
    skip: o.Skip = None,
    opset: o.Opset = "auto",
    json: o.Json = None,
) -> None:
    """Show what will be quantized, without data.

    Nodes that stay in float are listed with the reason. Of a quantized model, show how it was made, the
    preprocessing that it records, and which nodes run in integers.
    """
    from ptq.optimization import inspect as verb

    from . import documents, outputs, render_tables

    outputs.check_outputs([model], [], json)
    inspection = verb.inspect(model, target=target, skip=skip or (), opset=opset)
    if not documents.write_document(json, inspection):
        render_tables.render_inspection(inspection)


def ops(json: o.Json = None) -> None:
    """Print the operator table.

    For each operator: quantized inputs and outputs, its operator in ONNX Runtime and LiteRT, and the
    arithmetics that can run it in integers.
    """
    from . import documents, outputs, render_operators
    from .optable import list_op_rows

    outputs.check_outputs([], [], json)
    rows = list_op_rows()
    if not documents.write_document(json, rows):
        render_operators.render_operators(rows)


for _command in (quantize, calibrate, evaluate, compare, benchmark, verify, sensitivity, frontier):
    app.command(epilog=PREPROCESSING_HELP)(
        record_invocation(add_config_options(add_verbosity_options(_command)))
    )
app.command()(record_invocation(add_config_options(add_verbosity_options(inspect))))
for _command in (convert, lint, ops):
    app.command()(record_invocation(add_config_options(_command)))
app.command()(record_invocation(add_config_options(add_verbosity_options(tune))))
app.command("init")(write_starter)
app.command()(demo)
app.command()(explain)
