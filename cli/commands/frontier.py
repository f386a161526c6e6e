"""Command ``ptq frontier``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from ..options import shared as o
from ..options.parsers import parse_count
from ..options.preprocessing import Images, add_image_options

TimedTargetName = Literal["ort"]
"""Copy of the names of the targets whose times are measured; a test compares it with ptq."""


@add_image_options
def frontier(
    model: o.Model,
    data: o.Data,
    eval_data: o.EvalData = None,
    target: Annotated[
        TimedTargetName,
        typer.Option(
            "--target",
            metavar="NAME",
            parser=str,
            help=f"The runtime to quantize for. Its times must be measured: {o.list_names(TimedTargetName)}.",
        ),
    ] = "ort",
    method: o.Method = "auto",
    per_tensor: o.PerTensor = False,
    equalize: o.Equalize = True,
    effort: o.Effort = "default",
    prefer: o.Prefer = "balanced",
    cost_table: o.CostTable = None,
    skip: o.Skip = None,
    measure_all: Annotated[
        bool,
        typer.Option("--measure-all", help="Measure all points, not only a few."),
    ] = False,
    point: Annotated[
        int | None,
        typer.Option(
            "--point",
            metavar="N",
            parser=parse_count("point"),
            help="Write the model of point N, without calibrating again.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The model of --point; by default NAME.int8.onnx in the current folder.",
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save",
            metavar="FOLDER",
            help="Write a plan for each point and the statistics, which ptq quantize --plan --stats takes, and the "
            "list of points, frontier.json.",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Write the curve as a picture, an .svg file."),
    ] = None,
    samples: o.SampleCount = None,
    skip_bad_samples: o.SkipBad = False,
    cache: o.Cache = None,
    batch: o.Batch = o.DEFAULT_BATCH,
    threads: o.Threads = 0,
    page: o.Page = None,
    json: o.Json = None,
    no_clobber: o.NoClobber = False,
    images: Images = None,
) -> None:
    """Show every trade of speed against error.

    Each point says which nodes stay in float. Speed and error of each point are estimated from one set of
    runs of the float model and from a table of measured times. The ends, five points between and the
    point that --prefer chooses are measured.
    """
    from functools import partial

    from ptq.api import frontier as verb
    from ptq.api.quantize import quantize
    from ptq.api.saved_frontier import list_saved_files
    from ptq.core import files
    from ptq.core.errors import UsageError
    from ptq.evaluation.exports.frontier_svg import render_svg
    from ptq.evaluation.presentation.html_rankings import render_frontier_page

    from .. import outputs
    from ..documents.write_document import write_document
    from ..page import write_page
    from ..progress.show_progress import show_progress
    from ..render.frontier import render_frontier

    if output is not None and point is None:
        raise UsageError("-o names the model of a point; give --point")
    if plot is not None and plot.suffix.lower() != ".svg":
        raise UsageError(f"{plot}: the picture is an SVG; give a name that ends with .svg")
    if save is not None and os.path.exists(save) and not os.path.isdir(save):
        raise UsageError(f"{save}: is a file; give a folder for the plans")
    path = output or outputs.choose_default_output(model)
    saved = [] if save is None else list_saved_files(save)
    made = [plot, page, *([path] if point is not None else []), *saved]
    replaced = outputs.check_outputs([model, data, eval_data], made, json, no_clobber=no_clobber)
    with show_progress() as progress:
        found = verb.frontier(
            model, data, eval_data=eval_data, target=target, method=method, per_tensor=per_tensor, equalize=equalize,
            effort=effort, prefer=prefer, cost_table=cost_table, skip=skip or (),
            measure_all=measure_all, preprocess=images,
            samples=samples, skip_bad_samples=skip_bad_samples, cache=cache, batch=batch, threads=threads,
            progress=progress,
        )  # fmt: skip
        if point is not None and point >= len(found.plans):
            last = len(found.plans) - 1
            raise UsageError(f"there is no point {point}; the last one is {last}")
        result = None
        if point is not None:
            result = quantize(
                model, data, eval_data=eval_data, plan=found.plans[point], stats=found.calibration,
                preprocess=images, samples=samples, skip_bad_samples=skip_bad_samples, cache=cache, batch=batch,
                threads=threads, effort=effort, cost_table=cost_table, progress=progress,
            )  # fmt: skip
    if save is not None:
        found.save(save)
    if plot is not None:
        files.write(plot, render_svg(found.report).encode())
    if result is not None:
        result.save(path)
    written = path if result is not None else None
    write_page(page, partial(render_frontier_page, found.report), output=written)
    if not write_document(json, found.report, output=written):
        render_frontier(found.report, written)
    outputs.print_replaced(replaced)
