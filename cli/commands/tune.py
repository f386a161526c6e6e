"""Command ``ptq tune``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..options import shared as o
from ..options.parsers import parse_number
from ..verbosity import is_quiet, is_verbose

if TYPE_CHECKING:
    from ptq.api.tune import Tuned


def tune(
    models: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[MODEL]...",
            help="Float models, .onnx files; without any, a standard grid of 78 common kernels.",
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The table of times.")
    ] = Path("cost-table.json"),
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds",
            metavar="N",
            parser=parse_number("seconds", least=0),
            help="Start no further kernel after N seconds; by default 60 without a model, else no limit.",
        ),
    ] = None,
    threads: o.Threads = 0,
    json: o.Json = None,
    no_clobber: o.NoClobber = False,
) -> None:
    """Time kernels on this machine, in float and on integers.

    The table decides which nodes stay float: give it to ptq quantize with --cost-table. Kernels that
    were not timed have the times of the shipped table, scaled as the timed ones of their kind differ from it.

    Without a model, convolutions, products and other operators of common networks are timed, in about 20
    seconds, 60 at most. A model's own kernels give better estimates for it.
    """
    from ptq.api import tune as verb

    from .. import outputs
    from ..documents.document_types import TuneSummary
    from ..documents.write_document import write_document
    from ..one_line import to_one_line
    from ..progress.show_progress import show_progress
    from ..render import screen

    replaced = outputs.check_outputs([*(models or [])], [output], json, no_clobber=no_clobber)
    if not models and not is_quiet():
        limit = verb.GRID_SECONDS if seconds is None else seconds
        typer.echo(f"timing common kernels, for at most {limit:g} seconds", err=True)
    with show_progress() as progress:
        tuned = verb.tune(models or None, seconds=seconds, threads=threads, progress=progress)
    tuned.save(output)
    table = tuned.table
    summary = TuneSummary(
        table.version, table.processor, table.threads, table.digest, tuned.timed, tuned.left_out
    )
    if not write_document(json, summary, output=output):
        faster = sum(integer < in_float for in_float, integer in table.kernels.values())
        screen.show(
            screen.format_paragraph(
                f"{tuned.timed} kernels timed, {faster} of them faster on integers; ONNX Runtime {table.version}, "
                f"{table.processor}"
            ),
            *map(screen.format_paragraph, _describe_left_out(tuned)),
            screen.format_paragraph(
                to_one_line(f"Written: {output}. Next: ptq quantize … --cost-table {output}")
            ),
        )
    outputs.print_replaced(replaced)


def _describe_left_out(tuned: Tuned) -> Iterator[str]:
    """Each kernel that was not timed; those for which no time was left on one line, unless all are wanted."""
    from ptq.api.tune import LATE
    from ptq.core.wording import plural

    from ..one_line import to_one_line

    late = sum(why == LATE for _, why in tuned.left_out)
    if late and not is_verbose():
        yield f"{plural(late, 'kernel')} not timed: {LATE}; -v lists them, --seconds gives more time"
    for key, why in tuned.left_out:
        if why != LATE or is_verbose():
            yield to_one_line(f"not timed: {key} ({why})")
