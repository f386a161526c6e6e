"""Command ``ptq convert``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import shared as o
from ..options import tflite as t


def convert(
    quantized: o.Quantized,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="PATH", help="The converted model.")
    ],
    form: Annotated[
        o.Form | None,
        typer.Option(
            "--format",
            metavar="qdq|qoperator|tflite",
            parser=str,
            help="The form to convert to; tflite is LiteRT's file, which an output that ends in .tflite means too.",
        ),
    ] = None,
    integers: Annotated[
        bool,
        typer.Option(
            "--integers",
            help="With --format qoperator: convert also operators that ONNX Runtime computes in float in QDQ "
            "form. Where int8 and uint8 meet, all become uint8. Faster; values next to a rounding tie can "
            "differ by 1 LSB.",
        ),
    ] = False,
    io: t.ConvertedType = "float",
    static_batch: t.ConvertedBatch = None,
    no_clobber: o.NoClobber = False,
    json: o.Json = None,
) -> None:
    """Convert a quantized model to QDQ, QOperator or LiteRT form.

    The integer function stays the same. This is proved before anything is written. Operators without
    an equivalent in the other form stay unchanged. So do operators that ONNX Runtime computes in
    float in QDQ form, for example where int8 meets uint8. Both are listed.
    """
    from ptq.api import convert as verb
    from ptq.core.errors import UsageError
    from ptq.verification.conversion import list_float_statuses, list_unconverted

    from .. import outputs
    from ..documents.document_types import ConversionSummary
    from ..documents.write_document import write_document
    from ..render.verification import render_conversion

    if form is None and output.suffix != ".tflite":
        if io != "float" or static_batch is not None:
            raise UsageError(
                "--io and --static-batch are of .tflite files; give an output that ends in .tflite"
            )
        raise UsageError("the form to convert to is missing; give --format")
    form = outputs.choose_form(form, output)
    replaced = outputs.check_outputs([quantized], [output], json, no_clobber=no_clobber)
    converted = verb.convert(quantized, form, integers=integers, io=io, static_batch=static_batch)
    graph = converted.graph
    float_nodes = list_unconverted(graph) if form == "qoperator" else list_float_statuses(graph)
    if form == "tflite":
        float_nodes = ()
    converted.save(output)
    summary = ConversionSummary(
        form, float_nodes, converted.load_failure, converted.given_model_loads
    )
    if not write_document(json, summary, output=output):
        render_conversion(summary, output)
    outputs.print_replaced(replaced)
