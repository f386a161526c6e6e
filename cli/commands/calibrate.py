"""Command ``ptq calibrate``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..one_line import to_one_line
from ..options import shared as o
from ..options.parsers import parse_count, parse_keep_samples
from ..options.preprocessing import Images, add_image_options
from ..options.workers import Cluster, Workers

if TYPE_CHECKING:
    from ptq.api.merge_statistics import NamedStatistics


@add_image_options
def calibrate(
    model: o.Model,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="STATS", help="The statistics, an .npz file.")
    ],
    data: o.OptionalData = None,
    merge: Annotated[
        list[Path] | None,
        typer.Option(
            "--merge",
            metavar="FILE",
            help="Add the statistics of an earlier calibration; can be repeated.",
        ),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            "--shard", metavar="K/N", help="Use every N-th sample, starting with sample K (from 0)."
        ),
    ] = None,
    allow_missing_shards: Annotated[
        bool,
        typer.Option(
            "--allow-missing-shards", help="Merge also if shards of the samples are missing."
        ),
    ] = False,
    allow_mixed_processors: Annotated[
        bool,
        typer.Option(
            "--allow-mixed-processors",
            help="Merge statistics of different kinds of processor too; their last bits may differ.",
        ),
    ] = False,
    samples: o.SampleCount = None,
    skip_bad_samples: o.SkipBad = False,
    cache: o.Cache = None,
    batch: Annotated[
        int,
        typer.Option(
            "--batch",
            metavar="N",
            parser=parse_count("batch", least=1),
            help="Samples in memory at once; the statistics do not depend on it.",
        ),
    ] = o.DEFAULT_CALIBRATION_BATCH,
    threads: o.Threads = 0,
    workers: Workers = 1,
    cluster: Cluster = None,
    checkpoint: o.Checkpoint = None,
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory",
            metavar="SIZE",
            help="Most memory of the process, as 500MB. Tensors that do not fit are observed in further passes; "
            "the statistics stay the same, bit for bit. Less than the model needs is refused with that number.",
        ),
    ] = None,
    keep_samples: Annotated[
        str,
        typer.Option(
            "--keep-samples",
            metavar="N|SIZE",
            parser=parse_keep_samples,
            help="Keep up to N samples in the statistics, or as many as fit SIZE, such as 100MB. Each is as large as "
            "a model input. quantize --stats then decides without --data what else needs samples: equalization, "
            "range methods, weight rounding.",
        ),
    ] = "0",
    opset: o.Opset = "auto",
    no_clobber: o.NoClobber = False,
    json: o.Json = None,
    images: Images = None,
) -> None:
    """Collect statistics of a float model.

    The model runs once on the samples, and the statistics of its tensors are saved. ptq quantize
    --stats then chooses ranges by any method without running the model again. Merged statistics of
    shards equal the statistics of all samples, bit for bit. A shard that is counted twice or is missing,
    another model, other preprocessing and another kind of processor are refused.
    """
    from ptq.api import calibrate as verb
    from ptq.api.merge_statistics import NamedStatistics, merge_named
    from ptq.core.errors import UsageError
    from ptq.data.preprocessing.recorded_preprocess import list_recorded_options
    from ptq.data.splits import SampleOptions

    from .. import next_command, outputs
    from ..documents.document_types import CalibrationSummary
    from ..documents.write_document import write_document
    from ..options import inputs
    from ..progress.show_progress import show_progress
    from ..render.tables import render_calibration
    from ..statistics import check_new_samples, load_statistics

    replaced = outputs.check_outputs(
        [model, data, *(merge or ())], [output], json, resumed=checkpoint, no_clobber=no_clobber
    )
    if data is None and not merge:
        raise UsageError("no samples: give --data, or statistics with --merge")
    shard_numbers = inputs.parse_shard(shard)
    with show_progress() as progress:
        collected: Iterable[NamedStatistics] = load_statistics(model, merge or [], opset)
        if data is not None:
            earlier = list(collected)
            check_new_samples(
                earlier,
                model,
                data,
                SampleOptions(images, samples, skip_bad_samples, shard_numbers),
            )
            new = verb.calibrate(
                model, data, preprocess=images, samples=samples, shard=shard_numbers,
                skip_bad_samples=skip_bad_samples, cache=cache, batch=batch, threads=threads,
                workers=workers, cluster=cluster, checkpoint=checkpoint, memory=memory,
                keep_samples=keep_samples, opset=opset,
                progress=progress,
            )  # fmt: skip
            collected = [*earlier, NamedStatistics(to_one_line(data), new)]
        # more shards are expected to come if this one is named
        calibration = merge_named(
            collected,
            allow_missing_shards=allow_missing_shards or shard is not None or not merge,
            allow_mixed_processors=allow_mixed_processors,
        )
    outputs.print_skipped(calibration.skipped)
    calibration.save(output)
    identity = calibration.identity
    summary = CalibrationSummary(
        graph=calibration.graph,
        samples=calibration.samples,
        tensors=len(calibration.tensors),
        preprocessing=list_recorded_options(calibration.preprocess or {}),
        skipped=calibration.skipped,
        missing_shards=() if identity is None else tuple(identity.list_missing()),
        processors=() if identity is None else identity.processors,
        kept_samples=0 if calibration.kept is None else len(calibration.kept.feeds),
    )
    if not write_document(json, summary, output=output):
        following = next_command.suggest_after_calibrate(model, output, opset)
        render_calibration(calibration, output, following)
    outputs.print_replaced(replaced)
