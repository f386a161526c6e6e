"""``ptq calibrate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import options as o
from .images import Images, add_image_options


@add_image_options
def calibrate(
    model: o.Model,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="STATS", help="The statistics, an .npz.")
    ],
    data: o.OptionalData = None,
    merge: Annotated[
        list[Path] | None,
        typer.Option(
            "--merge", metavar="FILE", help="Add the statistics of an earlier calibration; repeat."
        ),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option("--shard", metavar="K/N", help="Every N-th sample from the K-th, from 0, on."),
    ] = None,
    samples: o.SampleCount = None,
    skip_bad_samples: o.SkipBad = False,
    batch: Annotated[
        int,
        typer.Option(
            "--batch",
            metavar="N",
            min=1,
            help="Samples held and counted together; the statistics do not depend on it.",
        ),
    ] = 4,
    threads: o.Threads = 0,
    workers: Annotated[
        int,
        typer.Option(
            "--workers",
            metavar="N",
            min=1,
            help="Processes that share the samples; the statistics stay the same, bit for bit.",
        ),
    ] = 1,
    checkpoint: o.Checkpoint = None,
    images: Images = None,
) -> None:
    """Observe a float model on samples, once.

    The statistics of its tensors are kept. From them ptq quantize --stats chooses ranges, by any
    method, without running the model again. The statistics of shards, merged, are those of the
    whole, bit for bit.
    """
    from . import inputs, outputs, tables
    from .progress import show_progress
    from .statistics import collect_and_merge, image_preprocessing

    outputs.check_outputs([model, data, *(merge or ())], [output, checkpoint])
    with show_progress() as progress:
        calibration = collect_and_merge(
            model, data, merge or [], preprocess=images, samples=samples,
            shard=inputs.parse_shard(shard), skip_bad_samples=skip_bad_samples,
            batch=batch, threads=threads, workers=workers, checkpoint=checkpoint,
            progress=progress,
        )  # fmt: skip
    outputs.print_skipped(calibration.skipped)
    calibration.save(output)
    tables.render_calibration(calibration, output, image_preprocessing(model, data, images))
