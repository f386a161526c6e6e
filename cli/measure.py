"""``ptq evaluate`` and ``ptq verify``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from . import options as o
from .images import Images, add_image_options


@add_image_options
def evaluate(
    model: o.AnyModel,
    data: o.Data,
    against: Annotated[
        Path | None,
        typer.Option("--against", metavar="FLOAT", help="The float model to compare with."),
    ] = None,
    engine: Annotated[
        Literal["ort", "integer"],
        typer.Option("--engine", help="Run in ONNX Runtime, or in integers alone."),
    ] = "ort",
    arithmetic: o.Arithmetic = "ort",
    samples: o.SampleCount = None,
    skip_bad_samples: o.SkipBad = False,
    batch: o.Batch = 8,
    max_drop: o.MaxDrop = None,
    metric: o.Metric = None,
    threads: o.Threads = 0,
    json: o.Json = None,
    images: Images = None,
) -> None:
    """Measure a model on samples.

    Accuracy where they are labelled and, with --against, how near it comes to the float model and
    what it loses. With --max-drop, whether that is within the budget.
    """
    from ptq import api
    from ptq.core.errors import UsageError
    from ptq.data.splits import SampleOptions
    from ptq.evaluation.drop import check_budget
    from ptq.model.open import open_model

    from . import drops, inputs, outputs, screen, tables
    from .progress import show_progress

    if against is None and (max_drop is not None or metric is not None):
        raise UsageError("a drop is counted against the float model; give it with --against")
    outputs.check_outputs([model, data, against], [], json)
    graph = open_model(model)
    opened = SampleOptions(images, samples, skip_bad_samples).open(data, graph)
    with show_progress() as progress:
        evaluation = api.evaluate(
            graph, opened, against=against, engine=engine, arithmetic=arithmetic, batch=batch,
            threads=threads, metric=inputs.read_metric(metric), progress=progress,
        )  # fmt: skip
    lost = next((form.drop for form in evaluation.forms.values() if form.drop is not None), None)
    held = None if lost is None or max_drop is None else check_budget(lost, max_drop)
    way = opened.preprocess
    more: dict[str, object] = {} if held is None else {"budget": held}
    if way is not None:
        more["preprocessing"] = way.describe()
    outputs.print_skipped(evaluation.skipped)
    if not outputs.write_json(outputs.to_json(evaluation, **more), json):
        tables.render_evaluation(
            evaluation, model, arithmetic if engine == "integer" else None, way
        )
        if held is not None:
            screen.show(drops.render_budget(held))
    if held is not None and held.verdict == "exceeded":
        raise typer.Exit(3)


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
            "between quantizers: differences are explained, and are no failure.",
        ),
    ] = True,
    portability: Annotated[
        bool,
        typer.Option(
            "--portability/--no-portability",
            help="Say where the integers would come out otherwise on another processor: headroom "
            "of accumulators, saturation without VNNI, exact ties.",
        ),
    ] = True,
    samples: o.SampleCount = None,
    skip_bad_samples: o.SkipBad = False,
    threads: o.Threads = 0,
    json: o.Json = None,
    images: Images = None,
) -> None:
    """Compare ONNX Runtime with the integers, tensor by tensor.

    Every integer tensor of a quantized model, anyone's, is compared on all samples: end to end, and
    node by node on ONNX Runtime's own integers, which names the guilty one. The exit code is 1 where
    any differs with optimizations on.
    """
    from dataclasses import asdict

    from ptq.verification import verbs

    from . import integers, outputs
    from .progress import show_progress

    outputs.check_outputs([quantized, data], [], json)
    risks = None
    with show_progress() as progress:
        found = verbs.verify(
            quantized, data, arithmetic=arithmetic, optimize=optimizations, preprocess=images,
            samples=samples, skip_bad_samples=skip_bad_samples, threads=threads, progress=progress,
        )  # fmt: skip
        if portability:
            risks = verbs.portability(
                quantized, data, preprocess=images, samples=samples,
                skip_bad_samples=skip_bad_samples, progress=progress,
            )  # fmt: skip
    document = outputs.to_json(
        found,
        equal=found.equal,
        passed=found.passed,
        first=None if found.first is None else asdict(found.first),
        explanations=found.explanations,
        portability=None if risks is None else asdict(risks) | risks.summary,
    )
    if not outputs.write_json(document, json):
        integers.render_verification(found)
        if risks is not None:
            integers.render_portability(risks)
    outputs.print_skipped(found.skipped)
    if not found.passed:
        raise typer.Exit(1)
