"""Command ``ptq lint``."""

from __future__ import annotations

import contextlib
from typing import Annotated, Literal

import typer

from ..options import shared as o

LintTargetName = Literal["litert", "litert-xnnpack", "gemmlowp", "tensorrt", "ort-xnnpack"]
"""Copy of the names of the targets with rules; a test compares it with ptq."""


def lint(
    quantized: o.Quantized,
    target: Annotated[
        LintTargetName | None,
        typer.Option(
            "--target",
            metavar="NAME",
            parser=str,
            help=f"The target whose rules are checked: {o.list_names(LintTargetName)}. By default the one that the "
            "model was quantized for if it is among these, else litert.",
        ),
    ] = None,
    json: o.Json = None,
) -> None:
    """Check a quantized model against the rules of a target.

    The rules are published ones, and the model may be of any tool. The targets with rules are litert, litert-xnnpack
    and gemmlowp (LiteRT's 8-bit quantization specification), tensorrt (its importer) and ort-xnnpack (what the
    provider takes).
    Errors break a rule; notes mark what is not covered, not fused or not taken. The exit code is 1 if
    there is an error. Usual reasons why the integers are slow in ONNX Runtime are named too.
    """
    from ptq.api import lint as verb
    from ptq.core.errors import ModelError
    from ptq.data.preprocessing.recorded_preprocess import read_preprocess
    from ptq.model.metadata import read_target
    from ptq.model.open import open_model, read_tflite_content
    from ptq.verification.lint import choose_rules
    from ptq.verification.slow_integers import find_slow_patterns

    from .. import outputs
    from ..documents.write_document import write_document
    from ..render.findings import render_findings, render_slow_patterns

    outputs.check_outputs([quantized], [], json)
    graph = open_model(quantized)
    findings = verb.lint(graph, target=target)
    if not write_document(json, findings):
        recorded = read_preprocess(graph)
        render_findings(
            findings,
            quantized,
            None if recorded is None else recorded.record,
            target=target or choose_rules(graph),
            made_for=read_target(graph),
        )
        if read_tflite_content(quantized) is None:
            with contextlib.suppress(ModelError):  # models for other runtimes may not load here
                render_slow_patterns(find_slow_patterns(graph))
    if any(finding.severity == "error" for finding in findings):
        raise typer.Exit(1)
