"""``ptq convert`` and ``ptq lint``: what is done with anyone's quantized model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from . import options as o


def convert(
    quantized: o.Quantized,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="PATH", help="The converted model.")
    ],
    form: Annotated[
        Literal["qdq", "qoperator"], typer.Option("--format", help="The form to convert to.")
    ],
    integers: Annotated[
        bool,
        typer.Option(
            "--integers",
            help="To qoperator: convert also what ONNX Runtime computes in float in QDQ form, int8 beside "
            "uint8 all in uint8. Faster; a value beside a tie can come out a step apart.",
        ),
    ] = False,
) -> None:
    """Turn a QDQ model into QOperator form, or back.

    The integer function stays the same: that is proved before anything is written. What has no form
    of the other kind stays as it is, and so does what ONNX Runtime computes in float in QDQ form, as
    int8 beside uint8; both are named.
    """
    from ptq.model.save import save
    from ptq.verification import verbs
    from ptq.verification.conversion import not_converted, runs_in_float

    from . import integers as shown
    from . import outputs

    outputs.check_outputs([quantized], [output])
    converted = verbs.convert(quantized, form, integers=integers)
    save(converted, output)
    floats = not_converted(converted) if form == "qoperator" else runs_in_float(converted)
    shown.render_conversion(floats, output)


def lint(
    quantized: o.Quantized,
    target: o.Target = "litert",
    json: o.Json = None,
) -> None:
    """Check a quantized model, whoever made it, against LiteRT's 8-bit specification.

    The exit code is 1 where the specification is broken; notes say where it has nothing to say.
    """
    from ptq.verification import verbs

    from . import outputs, tables

    outputs.check_outputs([quantized], [], json)
    findings = verbs.lint(quantized, target=target)
    if not outputs.write_json(outputs.to_json(findings), json):
        tables.render_findings(findings, quantized)
    if any(finding.severity == "error" for finding in findings):
        raise typer.Exit(1)
