"""Command ``ptq quantize``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import labels
from ..options import shared as o
from ..options import tflite as t
from ..options.preprocessing import Images, add_image_options
from ..options.workers import Cluster, Workers


@add_image_options
def quantize(
    model: o.Model,
    data: o.OptionalData = None,
    eval_data: o.EvalData = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The quantized model; by default NAME.int8.onnx in the current folder. A name that ends in .tflite "
            "means --format tflite.",
        ),
    ] = None,
    also: Annotated[
        Path | None,
        typer.Option(
            "--also",
            metavar="FILE",
            help="Beside a .tflite file: write the same plan as an ONNX model in QDQ form too.",
        ),
    ] = None,
    form: Annotated[
        o.Form | None,
        typer.Option(
            "--format",
            metavar="qdq|qoperator|tflite",
            parser=str,
            help="Form of the quantized model. qdq, the default, and qoperator have the same integer function. "
            "tflite, only targets litert, litert-xnnpack and litert-a16: LiteRT's file; "
            "needs pip install 'onnx-ptq[litert]'.",
        ),
    ] = None,
    io: t.InputOutputType = "float",
    static_batch: t.StaticBatch = None,
    weights: Annotated[
        o.WeightFormat,
        typer.Option(
            "--weights",
            metavar="auto|s8|reduced|u8",
            parser=str,
            help="Format of weights. On x86 without VNNI, ONNX Runtime saturates sums of two products with int8 "
            "weights (s8). reduced: int8 with smaller neighbours, no saturation. u8: stored as uint8, no saturation, "
            "slower, only target ort. auto: reduced if this processor and the target saturate, else s8.",
        ),
    ] = "auto",
    target: o.Target = "ort",
    method: o.Method = "auto",
    samples: o.SampleCount = None,
    batch: o.Batch = o.DEFAULT_BATCH,
    per_tensor: o.PerTensor = False,
    correct_bias: Annotated[
        bool,
        typer.Option(
            "--bias-correction/--no-bias-correction",
            help="Correct biases for the mean error of quantized weights and inputs.",
        ),
    ] = True,
    rounding: Annotated[
        o.Rounding,
        typer.Option(
            "--rounding",
            metavar="second-order|nearest",
            parser=str,
            help="second-order: GPTQ-style rounding from input covariances, plus error compensation in the last and "
            "fully connected layers; nearest: round each weight.",
        ),
    ] = "second-order",
    equalize: o.Equalize = True,
    split_outliers: Annotated[
        bool,
        typer.Option(
            "--split-outliers/--no-split-outliers",
            help="Compute outlier channels of transformers in float (LLM.int8-style), if held-out samples improve "
            "(targets ort, openvino, portable and tensorrt).",
        ),
    ] = True,
    effort: o.Effort = "default",
    prefer: o.Prefer = "balanced",
    cost_table: o.CostTable = None,
    min_speedup: o.MinSpeedup = None,
    skip: o.Skip = None,
    stats: Annotated[
        Path | None,
        typer.Option(
            "--stats",
            metavar="FILE",
            help="Statistics from ptq calibrate; --data is then optional.",
        ),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option("--plan", metavar="FILE", help="Apply this plan instead of solving one."),
    ] = None,
    save_plan: Annotated[
        Path | None,
        typer.Option(
            "--save-plan", metavar="FILE", help="Write the plan: every scale with its reason."
        ),
    ] = None,
    skip_bad_samples: o.SkipBad = False,
    cache: o.Cache = None,
    max_drop: o.MaxDrop = None,
    strict: o.Strict = False,
    metric: o.Metric = None,
    task: o.Task = None,
    boxes: labels.Boxes = None,
    transcripts: labels.Transcripts = None,
    alphabet: labels.Alphabet = None,
    arithmetic: o.OptionalArithmetic = None,
    metadata: Annotated[
        bool,
        typer.Option(
            "--metadata/--no-metadata",
            help="Record preprocessing and provenance in the metadata of the quantized model.",
        ),
    ] = True,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Write the result even if it is more than 1 MiB larger than the float model and slower.",
        ),
    ] = False,
    threads: o.Threads = 0,
    workers: Workers = 1,
    cluster: Cluster = None,
    checkpoint: o.Checkpoint = None,
    page: o.Page = None,
    summary: o.SummaryFile = None,
    json: o.Json = None,
    opset: o.Opset = "auto",
    no_clobber: o.NoClobber = False,
    images: Images = None,
) -> None:
    """Quantize a float model to 8 bits and measure the accuracy.

    Accuracy is measured in three ways on the same samples: the float model, the quantized model in
    ONNX Runtime, and the quantized model in ptq's integer executor. The quantized model is written
    to the current folder unless -o is given. An existing file is replaced, and that is reported; the input
    model never is. With --no-clobber an existing file is an error before any run.

    With --boxes or --transcripts, the drop is that of mAP50-95 or of exact lines, on the same samples as the
    accuracy: those of --eval, else the held-out ones of --data.

    With --max-drop, as few nodes as possible stay in float so that the budget holds. The search uses
    samples on which no range is chosen. The best model found is always written; the exit code is 3
    if it exceeds the budget. With --strict it is also 3 if the samples cannot decide. For target qnn, nodes
    get activations of 16 bits instead, and stay float only if that is not enough.

    A few nodes stay in float where integers cost much error for little time: --prefer says how much time.
    With --min-speedup the exit code is 3 if the result is slower for certain; it is written nevertheless.

    A result that is more than 1 MiB larger than the float model and clearly slower is an error too,
    with exit code 3. Nothing is written then, unless --force is given.
    """
    from ptq.api import quantize as verb
    from ptq.core import files
    from ptq.core.errors import UsageError
    from ptq.data.preprocessing.recorded_preprocess import list_recorded_options
    from ptq.evaluation.sparklines import draw_sparklines

    from .. import gates, github, next_command, outputs
    from ..documents.write_document import write_document
    from ..options import inputs
    from ..page import write_page
    from ..process import prepare_long_job
    from ..progress.show_progress import show_progress
    from ..render.report import count_shown, render_report

    gates.require_gate(strict, max_drop, min_speedup)
    if data is None and stats is None and plan is None:
        raise UsageError("no calibration data: give --data, --stats or --plan")
    form = outputs.choose_form(form, output)
    path = output or outputs.choose_default_output(model, form)
    outputs.check_also(also, path, form)
    replaced = outputs.check_model_output(
        model, [data, eval_data, stats, plan], [path, also, save_plan, page], json,
        resumed=checkpoint, appended=summary, no_clobber=no_clobber,
    )  # fmt: skip
    prepare_long_job()
    with show_progress() as progress:
        result = verb.quantize(
            model, data, eval_data=eval_data, target=target, method=method, form=form,
            weights=weights, per_tensor=per_tensor, correct_bias=correct_bias, rounding=rounding,
            equalize=equalize, split_outliers=split_outliers, effort=effort, prefer=prefer,
            cost_table=cost_table, min_speedup=min_speedup,
            skip=skip or (), stats=stats,
            plan=plan, preprocess=images, samples=samples, skip_bad_samples=skip_bad_samples, cache=cache,
            arithmetic=arithmetic, batch=batch, threads=threads, workers=workers, cluster=cluster,
            checkpoint=checkpoint,
            max_drop=max_drop, opset=opset, metric=inputs.read_metric(metric), task=task, boxes=boxes,
            transcripts=transcripts, alphabet=alphabet, metadata=metadata,
            force=force, io=io, static_batch=static_batch, progress=progress,
        )  # fmt: skip
    outputs.print_skipped(result.report.skipped)
    result.save(path)
    if also is not None:
        result.save(also)
    if save_plan is not None:
        files.write(save_plan, result.plan.to_json().encode())
    github.write_annotations("warning", result.report.warnings)
    github.append_summary(summary, result.report.to_markdown)
    other = result.report.evaluation_preprocessing
    evaluated = 0 if result.report.evaluation is None else result.report.evaluation.samples
    following = next_command.suggest_after_quantize(
        path, eval_data or data, count=evaluated, skip_bad_samples=skip_bad_samples,
        unrecorded=next_command.list_unrecorded(
            images,
            result.report.preprocessing,
            None if other is None else list_recorded_options(other),
            metadata=metadata,
        ),
        static_batch=static_batch,
        has_integers=result.report.has_integers,
    )  # fmt: skip
    write_page(page, result.to_html, output=path, following=following)
    if not write_document(json, result.report, output=path):
        histograms = draw_sparklines(result.report, result.calibration.tensors, count_shown())
        written = str(path) if also is None else f"{path}, {also}"
        render_report(result.report, written, following, histograms)
    outputs.print_replaced(replaced)
    gates.exit_if_too_slow(result.report.speed_shortfall)
    if result.report.budget is not None:
        gates.exit_if_exceeded(result.report.budget, strict=strict)
