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

    Every integer tensor of the quantized model is compared on all samples. The first that diverges
    is named. The exit code is 1 where any differs.
    """
    from ptq import api

    from . import inputs, outputs, tables
    from .progress import bars

    outputs.check_outputs([quantized, data], [], json)
    images = inputs.preprocess(
        size=size, resize=resize, crop=crop, scale=scale,
        mean=mean, std=std, layout=layout, channels=channels,
    )  # fmt: skip
    with bars() as progress:
        verification = api.verify(
            quantized, data, arithmetic=arithmetic, preprocess=images, samples=samples,
            skip_bad_samples=skip_bad_samples, threads=threads, progress=progress,
        )  # fmt: skip
    outputs.tell_skipped(verification.skipped)
    if not outputs.write_json(outputs.document(verification, equal=verification.equal), json):
        tables.verification(verification)
    if not verification.equal:
        raise typer.Exit(1)
