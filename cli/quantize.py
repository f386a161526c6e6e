"""``ptq quantize``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from . import options as o
from .images import Images, add_image_options


@add_image_options
def quantize(
    model: o.Model,
    data: o.OptionalData = None,
    eval_data: Annotated[
        str | None,
        typer.Option(
            "--eval",
            metavar="PATH",
            help="Samples that accuracy is measured on, as for --data; without it, a fifth of "
            "--data is held out for that where there are at least 50 samples.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The quantized model; by default NAME.int8.onnx in the current folder.",
        ),
    ] = None,
    form: Annotated[
        Literal["qdq", "qoperator"],
        typer.Option("--format", help="How the integers are written; the same function."),
    ] = "qdq",
    weights: Annotated[
        Literal["auto", "s8", "reduced", "u8"],
        typer.Option(
            "--weights",
            help="Against x86 without VNNI, where ONNX Runtime saturates sums of two products with int8 weights: "
            "reduced lets no two neighbours be so large; u8, for target ort, stores all as uint8, slower; s8 does "
            "neither; auto is reduced where this processor saturates.",
        ),
    ] = "auto",
    target: o.Target = "ort",
    method: Annotated[
        str,
        typer.Option("--method", metavar="NAME", help=f"How ranges are chosen: {o.METHODS}."),
    ] = "auto",
    samples: o.SampleCount = None,
    batch: o.Batch = 8,
    per_tensor: Annotated[
        bool, typer.Option("--per-tensor", help="One scale a weight, instead of one a channel.")
    ] = False,
    correct_bias: Annotated[
        bool,
        typer.Option(
            "--bias-correction/--no-bias-correction",
            help="Take the mean error of rounded weights and inputs out of the biases.",
        ),
    ] = True,
    rounding: Annotated[
        Literal["second-order", "nearest"],
        typer.Option(
            "--rounding",
            help="How weights become integers: by how their inputs vary together on --data, with last and fully "
            "connected layers that make up for the rounding before them, or each to the nearest.",
        ),
    ] = "second-order",
    equalize: o.Equalize = True,
    split_outliers: Annotated[
        bool,
        typer.Option(
            "--split-outliers/--no-split-outliers",
            help="Compute the part of channels that dwarf the others in float, where that gains "
            "(target ort).",
        ),
    ] = True,
    skip: o.Skip = None,
    stats: Annotated[
        Path | None,
        typer.Option(
            "--stats", metavar="FILE", help="Statistics of ptq calibrate; --data is then optional."
        ),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option("--plan", metavar="FILE", help="Obey a plan instead of solving one."),
    ] = None,
    save_plan: Annotated[
        Path | None,
        typer.Option(
            "--save-plan", metavar="FILE", help="Write the plan, every scale with its reason."
        ),
    ] = None,
    skip_bad_samples: o.SkipBad = False,
    max_drop: o.MaxDrop = None,
    metric: o.Metric = None,
    arithmetic: Annotated[
        str | None,
        typer.Option(
            "--arithmetic",
            metavar="NAME",
            help=f"What the integers are computed in: {o.ARITHMETICS}; by default what the "
            "target computes in.",
        ),
    ] = None,
    threads: o.Threads = 0,
    checkpoint: o.Checkpoint = None,
    page: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE.html", help="Write the report as one HTML page."),
    ] = None,
    json: o.Json = None,
    images: Images = None,
) -> None:
    """Quantize a float model to 8 bits and measure what it cost.

    Accuracy is measured three ways on the same samples: the float model, the result in ONNX
    Runtime, and the result in integers alone. The quantized model is written, in the current folder
    unless -o says otherwise; what stands there is replaced, the input model never.

    With --max-drop, the fewest nodes are left float with which the budget holds on samples that no
    range is chosen on. The best model found is written in any case; the exit code is 3 where the
    budget cannot be kept.
    """
    from ptq import api
    from ptq.core import files

    from . import inputs, outputs, render
    from .progress import show_progress

    place = output or outputs.default_output(model)
    outputs.check_model_output(
        model, [data, eval_data, stats, plan], [place, save_plan, checkpoint, page], json
    )
    given_plan = inputs.read_plan(plan)
    with show_progress() as progress:
        result = api.quantize(
            model, data, eval_data=eval_data, target=target, method=method, form=form,
            weights=weights, per_tensor=per_tensor, correct_bias=correct_bias, rounding=rounding,
            equalize=equalize, split_outliers=split_outliers, skip=skip or (), stats=stats,
            plan=given_plan, preprocess=images, samples=samples, skip_bad_samples=skip_bad_samples,
            arithmetic=arithmetic, batch=batch, threads=threads, checkpoint=checkpoint,
            max_drop=max_drop, metric=inputs.read_metric(metric), progress=progress,
        )  # fmt: skip
    outputs.print_skipped(result.report.skipped)
    result.save(place)
    if save_plan is not None:
        files.write(save_plan, result.plan.to_json().encode())
    if page is not None:
        from ptq.evaluation import html

        files.write(page, html.encode_page(html.render_page(result.report)))
    if not outputs.write_json(result.report.to_json(), json):
        render.render_report(result.report, str(place))
    if result.report.over_budget:
        raise typer.Exit(3)
