"""``ptq evaluate`` and ``ptq verify``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from . import options as o


def evaluate(
    model: o.AnyModel,
    data: o.Data,
    against: Annotated[
        Path | None,
        typer.Option("--against", metavar="FLOAT", help="The float model to compare with."),
    ] = None,
    engine: Annotated[
        Literal["ort", "integer"],
        typer.Option("--engine", help="Run in ONNX Runtime, or in integers alone."),
    ] = "ort",
    arithmetic: o.Arithmetic = "ort",
    samples: o.SampleCount = None,
    skip_bad_samples: o.SkipBad = False,
    batch: o.Batch = 8,
    threads: o.Threads = 0,
    json: o.Json = None,
    size: o.Size = None,
    resize: o.Resize = None,
    crop: o.Crop = None,
    scale: o.Scale = None,
    mean: o.Mean = None,
    std: o.Std = None,
    layout: o.Layout = None,
    channels: o.Channels = None,
) -> None:
    """Measure a model on samples.

    Accuracy where they are labelled and, with --against, how near it comes to the float model.
    """
    from ptq import api

    from . import inputs, outputs, tables
    from .progress import bars

    outputs.check_outputs([model, data, against], [], json)
    images = inputs.preprocess(
        size=size, resize=resize, crop=crop, scale=scale,
        mean=mean, std=std, layout=layout, channels=channels,
    )  # fmt: skip
    with bars() as progress:
        evaluation = api.evaluate(
            model, data, against=against, engine=engine, arithmetic=arithmetic,
            preprocess=images, samples=samples, skip_bad_samples=skip_bad_samples,
            batch=batch, threads=threads, progress=progress,
        )  # fmt: skip
    outputs.tell_skipped(evaluation.skipped)
    if not outputs.write_json(outputs.document(evaluation), json):
        tables.evaluation(evaluation, model, arithmetic if engine == "integer" else None)


def verify(
    quantized: o.Quantized,
    data: o.Data,
    arithmetic: o.Arithmetic = "ort",
    optimizations: Annotated[
        bool,
        typer.Option(
            "--optimizations/--no-optimizations",
            help="Run ONNX Runtime with its graph optimizations. Without them it computes in float "
            "between quantizers: differences are explained, and are no failure.",
        ),
    ] = True,
    portability: Annotated[
        bool,
        typer.Option(
            "--portability/--no-portability",
            help="Say where the integers would come out otherwise on another processor: headroom "
            "of accumulators, saturation without VNNI, exact ties.",
        ),
    ] = True,
    samples: o.SampleCount = None,
    skip_bad_samples: o.SkipBad = False,
    threads: o.Threads = 0,
    json: o.Json = None,
    size: o.Size = None,
    resize: o.Resize = None,
    crop: o.Crop = None,
    scale: o.Scale = None,
    mean: o.Mean = None,
    std: o.Std = None,
    layout: o.Layout = None,
    channels: o.Channels = None,
) -> None:
    """Compare ONNX Runtime with the integers, tensor by tensor.

    Every integer tensor of a quantized model, anyone's, is compared on all samples: end to end, and
    node by node on ONNX Runtime's own integers, which names the guilty one. The exit code is 1 where
    any differs with optimizations on.
    """
    from dataclasses import asdict

    from ptq import quantized as verbs

    from . import inputs, integers, outputs
    from .progress import bars

    outputs.check_outputs([quantized, data], [], json)
    images = inputs.preprocess(
        size=size, resize=resize, crop=crop, scale=scale,
        mean=mean, std=std, layout=layout, channels=channels,
    )  # fmt: skip
    risks = None
    with bars() as progress:
        found = verbs.verify(
            quantized, data, arithmetic=arithmetic, optimize=optimizations, preprocess=images,
            samples=samples, skip_bad_samples=skip_bad_samples, threads=threads, progress=progress,
        )  # fmt: skip
        if portability:
            risks = verbs.portability(
                quantized, data, preprocess=images, samples=samples,
                skip_bad_samples=skip_bad_samples, progress=progress,
            )  # fmt: skip
    document = outputs.document(
        found,
        equal=found.equal,
        passed=found.passed,
        first=None if found.first is None else asdict(found.first),
        explanations=found.explanations,
        portability=None if risks is None else asdict(risks) | risks.summary,
    )
    if not outputs.write_json(document, json):
        integers.verification(found)
        if risks is not None:
            integers.portability(risks)
    if not found.passed:
        raise typer.Exit(1)
