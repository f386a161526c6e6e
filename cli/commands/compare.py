"""Command ``ptq compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import labels
from ..options import shared as o
from ..options.preprocessing import Images, add_image_options
from ..options.workers import Cluster, Workers


@add_image_options
def compare(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="The model to compare with.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The model that would replace it.")],
    data: o.Data,
    samples: o.SampleCount = None,
    skip_bad_samples: o.SkipBad = False,
    cache: o.Cache = None,
    batch: o.Batch = o.DEFAULT_BATCH,
    max_drop: o.MaxDrop = None,
    strict: o.Strict = False,
    metric: o.Metric = None,
    task: o.Task = None,
    boxes: labels.Boxes = None,
    transcripts: labels.Transcripts = None,
    alphabet: labels.Alphabet = None,
    threads: o.Threads = 0,
    workers: Workers = 1,
    cluster: Cluster = None,
    summary: o.SummaryFile = None,
    page: o.Page = None,
    json: o.Json = None,
    no_clobber: o.NoClobber = False,
    images: Images = None,
) -> None:
    """Compare two models on the same samples.

    Each may be float or quantized; inputs and outputs must be the same. Reports accuracy if the
    samples are labelled, how often the two agree, the SQNR of the outputs, size and speed. A
    .tflite file runs in LiteRT, and for the speed the other model too if LiteRT has its operators. With
    --max-drop, the exit code is 3 if NEW is worse by more than that.
    """
    from functools import partial

    from ptq.api import compare as verb
    from ptq.evaluation.comparison_page import render_comparison_page

    from .. import gates, github, outputs
    from ..documents.write_document import write_document
    from ..options import inputs
    from ..page import write_page
    from ..progress.show_progress import show_progress
    from ..render.comparison import render_comparison, summarize_comparison

    gates.require_gate(strict, max_drop)
    replaced = outputs.check_outputs(
        [old, new, data], [page], json, appended=summary, no_clobber=no_clobber
    )
    with show_progress() as progress:
        result = verb.compare(
            old, new, data, preprocess=images, samples=samples, skip_bad_samples=skip_bad_samples, cache=cache,
            max_drop=max_drop, metric=inputs.read_metric(metric), task=task, boxes=boxes,
            transcripts=transcripts, alphabet=alphabet, batch=batch, threads=threads,
            workers=workers, cluster=cluster, progress=progress,
        )  # fmt: skip
    outputs.print_skipped(result.skipped)
    github.write_annotations("warning", result.warnings)
    github.append_summary(summary, lambda: summarize_comparison(result))
    write_page(page, partial(render_comparison_page, result))
    if not write_document(json, result):
        render_comparison(result)
    outputs.print_replaced(replaced)
    if result.budget is not None:
        gates.exit_if_exceeded(result.budget, strict=strict)
