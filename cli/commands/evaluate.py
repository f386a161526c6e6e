"""Command ``ptq evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..options import labels
from ..options import runtimes as r
from ..options import shared as o
from ..options.preprocessing import Images, add_image_options
from ..options.workers import Cluster, Workers


@add_image_options
def evaluate(
    model: o.AnyModel,
    data: o.Data,
    against: Annotated[
        Path | None,
        typer.Option("--against", metavar="FLOAT", help="The float model to compare with."),
    ] = None,
    engine: Annotated[
        o.EngineName,
        typer.Option(
            "--engine",
            metavar="ort|integer",
            parser=str,
            help="Run in ONNX Runtime, or in ptq's integer executor; --runtime says the same.",
        ),
    ] = "ort",
    runtime: r.Runtime = None,
    arithmetic: o.Arithmetic = "ort",
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
    """Measure a model on samples.

    Accuracy is measured if the samples are labelled. With --against, the outputs are compared with
    those of the float model, and the drop is reported. With --max-drop, the drop is checked against
    the budget.
    """
    from functools import partial

    from ptq.api import evaluate as verb
    from ptq.core.errors import UsageError
    from ptq.data.preprocessing.recorded_preprocess import list_recorded_options
    from ptq.evaluation.presentation.html_evaluation import render_evaluation_page
    from ptq.model.open import display_name

    from .. import gates, github, outputs
    from ..documents.write_document import write_document
    from ..options import inputs
    from ..page import write_page
    from ..progress.show_progress import show_progress
    from ..render import summaries
    from ..render.tables import render_evaluation

    if against is None and task is not None and boxes is None and transcripts is None:
        raise UsageError(verb.NEEDS_FLOAT_MODEL)
    gates.require_gate(strict, max_drop)
    replaced = outputs.check_outputs(
        [model, data, against], [page], json, appended=summary, no_clobber=no_clobber
    )
    with show_progress() as progress:
        evaluation = verb.evaluate(
            model, data, against=against, engine=engine, runtime=runtime, arithmetic=arithmetic,
            preprocess=images, samples=samples, skip_bad_samples=skip_bad_samples, cache=cache, batch=batch,
            threads=threads, workers=workers, cluster=cluster, max_drop=max_drop,
            metric=inputs.read_metric(metric), task=task, boxes=boxes,
            transcripts=transcripts, alphabet=alphabet, progress=progress,
        )  # fmt: skip
    more: dict[str, Any] = {}
    applied = evaluation.applied_preprocess
    preprocessing = {} if applied is None else list_recorded_options(applied.record)
    if preprocessing:
        more["preprocessing"] = preprocessing
    outputs.print_skipped(evaluation.skipped)
    github.write_annotations("warning", evaluation.warnings)
    github.append_summary(
        summary, lambda: summaries.summarize_evaluation(evaluation, display_name(model), arithmetic)
    )
    write_page(
        page,
        partial(
            render_evaluation_page,
            evaluation,
            model=display_name(model),
            arithmetic=arithmetic,
        ),
    )
    if not write_document(json, evaluation, **more):
        render_evaluation(evaluation, model, arithmetic)
    outputs.print_replaced(replaced)
    if evaluation.budget is not None:
        gates.exit_if_exceeded(evaluation.budget, strict=strict)
