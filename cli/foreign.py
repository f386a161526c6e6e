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
) -> None:
    """Turn a QDQ model into QOperator form, or back.

    The integer function stays the same: that is proved before anything is written. Where int8 and
    uint8 activations meet, QOperator form has them all in uint8. What has no form of the other kind
    stays as it is, and is named.
    """
    from ptq import quantized as verbs
    from ptq.convert import kept
    from ptq.storing import save

    from . import integers, outputs

    outputs.check_outputs([quantized], [output])
    converted = verbs.convert(quantized, form)
    save(converted, output)
    integers.conversion(kept(converted) if form == "qoperator" else (), output)


def lint(
    quantized: o.Quantized,
    target: o.Target = "litert",
    json: o.Json = None,
) -> None:
    """Check a quantized model, whoever made it, against LiteRT's 8-bit specification.

    The exit code is 1 where the specification is broken; notes say where it has nothing to say.
    """
    from ptq import quantized as verbs

    from . import outputs, tables

    outputs.check_outputs([quantized], [], json)
    findings = verbs.lint(quantized, target=target)
    if not outputs.write_json(outputs.document(findings), json):
        tables.findings(findings, quantized)
    if any(finding.severity == "error" for finding in findings):
        raise typer.Exit(1)
