"""``ptq sensitivity``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import options as o
from .images import Images, add_image_options


@add_image_options
def sensitivity(
    model: o.Model,
    data: o.Data,
    eval_data: Annotated[
        str | None,
        typer.Option(
            "--eval",
            metavar="PATH",
            help="Samples to measure on, as for --data; without it, a fifth of --data is held out.",
        ),
    ] = None,
    target: o.Target = "ort",
    method: Annotated[
        str,
        typer.Option("--method", metavar="NAME", help=f"How ranges are chosen: {o.METHODS}."),
    ] = "auto",
    per_tensor: Annotated[
        bool, typer.Option("--per-tensor", help="One scale a weight, instead of one a channel.")
    ] = False,
    equalize: o.Equalize = True,
    skip: o.Skip = None,
    measure: Annotated[
        int,
        typer.Option(
            "--measure",
            metavar="N",
            min=0,
            help="Measure the first N; the others are estimated, all of them at once.",
        ),
    ] = 5,
    metric: o.Metric = None,
    samples: o.SampleCount = None,
    skip_bad_samples: o.SkipBad = False,
    batch: o.Batch = 8,
    threads: o.Threads = 0,
    page: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE.html", help="Write the ranking as one HTML page."),
    ] = None,
    json: o.Json = None,
    images: Images = None,
) -> None:
    """Rank nodes by what leaving each float would win.

    Every node is estimated, from a few dozen runs of the float model with the errors of some nodes in
    it; the first few are measured. Use --skip, or --max-drop, of ptq quantize to leave nodes float.
    """
    from ptq.optimization.mixed_precision import sensitivity as verb

    from . import drops, inputs, outputs
    from .progress import show_progress

    outputs.check_outputs([model, data, eval_data], [page], json)
    with show_progress() as progress:
        ranking = verb.sensitivity(
            model, data, eval_data=eval_data, target=target, method=method, per_tensor=per_tensor,
            equalize=equalize, skip=skip or (), measure=measure, metric=inputs.read_metric(metric), preprocess=images,
            samples=samples, skip_bad_samples=skip_bad_samples, batch=batch, threads=threads,
            progress=progress,
        )  # fmt: skip
    if page is not None:
        from ptq.core import files
        from ptq.evaluation import html

        files.write(page, html.encode_page(html.render_ranking_page(ranking)))
    if not outputs.write_json(outputs.to_json(ranking), json):
        drops.render_ranking(ranking)
