"""Command ``ptq tune``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import options as o


def tune(
    models: Annotated[
        list[Path], typer.Argument(metavar="MODEL...", help="Float models, .onnx files.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The table of times.")
    ] = Path("cost-table.json"),
    threads: o.Threads = 0,
    json: o.Json = None,
    no_clobber: o.NoClobber = False,
) -> None:
    """Time the kernels of models on this machine, in float and on integers.

    The table decides which nodes stay float: give it to ptq quantize with --cost-table. Kernels that
    were not timed have the times of the shipped table.
    """
    from ptq.optimization import tune as timing

    from . import documents, outputs, screen
    from .document_types import TuneSummary
    from .one_line import one_line
    from .progress import show_progress

    replaced = outputs.check_outputs([*models], [output], json, no_clobber=no_clobber)
    with show_progress() as progress:
        tuned = timing.tune(models, threads=threads, progress=progress)
    tuned.save(output)
    table = tuned.table
    summary = TuneSummary(
        table.version, table.processor, table.threads, table.digest, tuned.timed, tuned.left_out
    )
    if not documents.write_document(json, summary, output=output):
        faster = sum(integer < in_float for in_float, integer in table.kernels.values())
        screen.show(
            screen.format_paragraph(
                f"{tuned.timed} kernels timed, {faster} of them faster on integers; ONNX Runtime {table.version}, "
                f"{table.processor}"
            ),
            *(
                screen.format_paragraph(one_line(f"not timed: {k} ({why})"))
                for k, why in tuned.left_out
            ),
            screen.format_paragraph(
                one_line(f"Written: {output}. Next: ptq quantize … --cost-table {output}")
            ),
        )
    outputs.print_replaced(replaced)
