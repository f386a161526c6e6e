"""Command ``ptq sensitivity``."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options import shared as o
from ..options.parsers import parse_count
from ..options.preprocessing import Images, add_image_options
from ..options.workers import Cluster, Workers


@add_image_options
def sensitivity(
    model: o.Model,
    data: o.Data,
    eval_data: o.EvalData = None,
    target: o.Target = "ort",
    method: o.Method = "auto",
    per_tensor: o.PerTensor = False,
    equalize: o.Equalize = True,
    skip: o.Skip = None,
    measure: Annotated[
        int,
        typer.Option(
            "--measure",
            metavar="N",
            parser=parse_count("measure"),
            help="Measure the first N nodes with quantized models; estimate the rest.",
        ),
    ] = o.DEFAULT_MEASURED,
    metric: o.Metric = None,
    task: o.Task = None,
    samples: o.SampleCount = None,
    skip_bad_samples: o.SkipBad = False,
    cache: o.Cache = None,
    batch: o.Batch = o.DEFAULT_BATCH,
    threads: o.Threads = 0,
    workers: Workers = 1,
    cluster: Cluster = None,
    page: o.Page = None,
    json: o.Json = None,
    opset: o.Opset = "auto",
    no_clobber: o.NoClobber = False,
    images: Images = None,
) -> None:
    """Rank nodes by the accuracy regained when each stays in float.

    All nodes are estimated from up to about a hundred runs of the float model with quantization errors added.
    The first few are measured. To keep a row in float, give ptq quantize a --skip for each of its
    nodes, or use --max-drop.
    """
    from functools import partial

    from ptq.api import sensitivity as verb
    from ptq.evaluation.presentation.html_rankings import render_ranking_page

    from .. import outputs
    from ..documents.write_document import write_document
    from ..options import inputs
    from ..page import write_page
    from ..progress.show_progress import show_progress
    from ..render.drops import render_ranking

    replaced = outputs.check_outputs([model, data, eval_data], [page], json, no_clobber=no_clobber)
    with show_progress() as progress:
        result = verb.sensitivity(
            model, data, eval_data=eval_data, target=target, method=method, per_tensor=per_tensor,
            equalize=equalize, skip=skip or (), measure=measure, opset=opset, metric=inputs.read_metric(metric),
            task=task, preprocess=images, samples=samples,
            skip_bad_samples=skip_bad_samples, cache=cache, batch=batch,
            threads=threads, workers=workers, cluster=cluster, progress=progress,
        )  # fmt: skip
    write_page(page, partial(render_ranking_page, result))
    if not write_document(json, result):
        render_ranking(result)
    outputs.print_replaced(replaced)
