"""Command ``ptq verify``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import runtimes as r
from ..options import shared as o
from ..options.preprocessing import Images, add_image_options
from ..options.workers import Cluster, Workers


@add_image_options
def verify(
    quantized: o.Quantized,
    data: o.Data,
    arithmetic: o.Arithmetic = "ort",
    optimizations: Annotated[
        bool,
        typer.Option(
            "--optimizations/--no-optimizations",
            help="Run ONNX Runtime with its graph optimizations. Without them it computes in float "
            "between quantizers; differences are then explained and do not fail.",
        ),
    ] = True,
    portability: Annotated[
        bool,
        typer.Option(
            "--portability/--no-portability",
            help="Report where another processor could compute other integers: accumulator "
            "headroom, saturation without VNNI, exact rounding ties.",
        ),
    ] = True,
    runtime: r.OtherRuntime = None,
    against: Annotated[
        Path | None,
        typer.Option(
            "--against",
            metavar="QUANTIZED",
            help="With --runtime: a quantized model with the same tensors, which says what is expected; by default "
            "the model itself.",
        ),
    ] = None,
    samples: o.SampleCount = None,
    skip_bad_samples: o.SkipBad = False,
    cache: o.Cache = None,
    threads: o.Threads = 0,
    workers: Workers = 1,
    cluster: Cluster = None,
    summary: o.SummaryFile = None,
    page: o.Page = None,
    json: o.Json = None,
    no_clobber: o.NoClobber = False,
    images: Images = None,
) -> None:
    """Compare ONNX Runtime and the executor, tensor by tensor.

    Of a .tflite file, LiteRT's reference kernels are compared; with --arithmetic litert-xnnpack, the
    outputs of its default ones. This works for a quantized model of any tool. Compares every integer
    tensor on all samples, end to end and node by node on the runtime's own integers, and reports the
    first node that differs.
    The exit code is 1 if a tensor differs with optimizations on. With --runtime the model runs in that
    runtime too, and the first tensor that diverges from what the file says is named; exit code 1.
    """
    from dataclasses import asdict
    from functools import partial

    from ptq.api import verify as verb
    from ptq.api.portability import portability as find_risks
    from ptq.data.splits import SampleOptions
    from ptq.data.workers.start_workers import resolve_data
    from ptq.model.open import display_name, read_tflite_content
    from ptq.rewrite.border.element_types import open_with_float_border
    from ptq.verification.html import render_verification_page

    from .. import github, outputs
    from ..documents.write_document import write_document
    from ..page import write_page
    from ..progress.show_progress import show_progress
    from ..render import summaries
    from ..render.runtime import render_runtime_check
    from ..render.verification import render_portability, render_verification

    replaced = outputs.check_outputs(
        [quantized, data, against], [page], json, appended=summary, no_clobber=no_clobber
    )
    risks, graph = None, open_with_float_border(quantized)
    is_tflite = read_tflite_content(quantized) is not None
    reading = SampleOptions(images, samples, skip_bad_samples, cache=cache)
    opened = reading.open(resolve_data(data, cluster), graph)
    with show_progress() as progress:
        verification = verb.verify(
            quantized if is_tflite else graph, opened, arithmetic=arithmetic, optimize=optimizations,
            runtime=runtime, against=against, threads=threads, workers=workers, cluster=cluster, progress=progress,
        )  # fmt: skip
        if portability and not is_tflite:
            risks = find_risks(graph, opened, threads=threads, progress=progress)
    printed = write_document(
        json,
        verification,
        equal=verification.equal,
        passed=verification.passed,
        first=None if verification.first is None else asdict(verification.first),
        explanations=verification.explanations,
        portability=None if risks is None else asdict(risks) | risks.summary,
    )
    write_page(
        page,
        partial(
            render_verification_page, verification, model=display_name(quantized), portability=risks
        ),
    )
    github.append_summary(
        summary, lambda: summaries.summarize_verification(verification, display_name(quantized))
    )
    if not printed:
        render_verification(verification)
        if verification.runtime_check is not None:
            render_runtime_check(verification.runtime_check)
        if risks is not None:
            render_portability(risks)
    outputs.print_skipped(verification.skipped)
    outputs.print_replaced(replaced)
    if not verification.passed:
        github.write_annotations("error", [f"{quantized}: integers differ"])
        raise typer.Exit(1)
