"""The application and its commands.

Commands import ptq in their bodies: the import takes a second, and ``--help`` does not need it.
"""

from __future__ import annotations

import gc
import sys
from typing import Annotated

import typer

from .commands.benchmark import benchmark
from .commands.calibrate import calibrate
from .commands.compare import compare
from .commands.convert import convert
from .commands.demo import demo
from .commands.evaluate import evaluate
from .commands.explain import explain
from .commands.frontier import frontier
from .commands.inspect import inspect
from .commands.lint import lint
from .commands.ops import ops
from .commands.quantize import quantize
from .commands.sensitivity import sensitivity
from .commands.tune import tune
from .commands.verify import verify
from .invocation import record_invocation
from .options.config_options import add_config_options, write_starter
from .options.preprocessing import PREPROCESSING_HELP
from .options.verbosity import add_verbosity_options
from .process import prepare_process, run

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

    Exit codes: 0 done; 1 problem with the model or the data, a difference that verify found, an error
    that lint found, an output that cannot be written, or internal error; 2 wrong usage; 3 accuracy budget
    exceeded (with --strict also undecided), slower than --min-speedup, or result larger and slower than
    float; 130 interrupted; 143 terminated.
    """
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


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
