"""Command ``ptq benchmark``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import runtimes as r
from ..options import shared as o
from ..options.parsers import parse_number
from ..options.preprocessing import Images, add_image_options


@add_image_options
def benchmark(
    models: Annotated[
        list[Path],
        typer.Argument(
            metavar="MODEL...",
            help="The models, .onnx or .tflite files; the first is compared with.",
        ),
    ],
    data: o.OptionalData = None,
    samples: o.SampleCount = None,
    skip_bad_samples: o.SkipBad = False,
    cache: o.Cache = None,
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds",
            metavar="S",
            parser=parse_number("seconds", least=0),
            help="Time for all runs of each model.",
        ),
    ] = o.DEFAULT_SECONDS,
    memory: Annotated[
        bool,
        typer.Option(
            "--memory/--no-memory",
            help="Measure the peak memory of each model, in a process of its own (Linux).",
        ),
    ] = True,
    threads: o.Threads = 0,
    runtime: r.Runtime = None,
    json: o.Json = None,
    no_clobber: o.NoClobber = False,
    images: Images = None,
) -> None:
    """Time models in turns, in one process and on the same inputs.

    The speed of each model is relative to the first, which usually is the float model. It is the
    median over rounds, with a 95 % interval. With --data, 16 samples run, or --samples. Without, inputs
    are made from the shapes of the first model. Usual reasons for slow integers are named. If one model
    is a .tflite file, all run in LiteRT.
    """
    from ptq.api import benchmark as verb

    from .. import outputs
    from ..documents.write_document import write_document
    from ..progress.show_progress import show_progress
    from ..render.benchmark import render_benchmark

    replaced = outputs.check_outputs([*models, data], [], json, no_clobber=no_clobber)
    with show_progress() as progress:
        result = verb.benchmark(
            models, data, preprocess=images, samples=samples, skip_bad_samples=skip_bad_samples, cache=cache,
            seconds=seconds, memory=memory, threads=threads, runtime=runtime, progress=progress,
        )  # fmt: skip
    if not write_document(json, result):
        render_benchmark(result)
    outputs.print_replaced(replaced)
