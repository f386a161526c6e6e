"""The verbs of ptq for a model that is quantized already, by anyone: verify, portability, convert, lint."""

from __future__ import annotations

from dataclasses import replace

from ptq.core.run_options import Progress, RunOptions
from ptq.data import DataSource, Preprocess
from ptq.data.splits import SampleOptions
from ptq.model.failure import explain_failure
from ptq.model.graph import Graph
from ptq.model.open import Model, open_model, require_quantized
from ptq.verification.conversion import Form
from ptq.verification.conversion import convert_graph as converted
from ptq.verification.lint import lint_graph as findings
from ptq.verification.lint_rules import Finding
from ptq.verification.portability import Portability
from ptq.verification.portability import measure_portability as look_for_risks
from ptq.verification.verify import Verification
from ptq.verification.verify import verify_graph as compare_integers


def verify(
    model: Model,
    data: DataSource,
    *,
    arithmetic: str = "ort",
    optimize: bool = True,
    preprocess: Preprocess | None = None,
    samples: int | None = None,
    skip_bad_samples: bool = False,
    threads: int = 0,
    progress: Progress | None = None,
) -> Verification:
    """Compare every integer tensor of a quantized model between ONNX Runtime and the integers.

    Without ``optimize`` ONNX Runtime computes in float between quantizers: differences are then explained.

    Raises:
        ModelError: The model cannot be read, or has no integers.
        DataError: A sample is missing, unreadable or does not fit.
    """
    graph = open_model(model)
    with explain_failure(graph):
        opened = SampleOptions(preprocess, samples, skip_bad_samples).open(data, graph)
        run = RunOptions(threads=threads, progress=progress)
        verified = run.track(opened, "verifying")
        found = compare_integers(graph, verified, arithmetic=arithmetic, optimize=optimize, run=run)
    return replace(found, skipped=tuple(opened.skipped))


def portability(
    model: Model,
    data: DataSource,
    *,
    preprocess: Preprocess | None = None,
    samples: int | None = None,
    skip_bad_samples: bool = False,
    progress: Progress | None = None,
) -> Portability:
    """Say where a quantized model's integers would come out otherwise on another processor.

    Raises:
        ModelError: The model cannot be read.
        DataError: A sample is missing, unreadable or does not fit.
    """
    graph = open_model(model)
    with explain_failure(graph):
        opened = SampleOptions(preprocess, samples, skip_bad_samples).open(data, graph)
        return look_for_risks(
            graph, RunOptions(progress=progress).track(opened, "looking for risks")
        )


def convert(model: Model, form: Form, *, integers: bool = False) -> Graph:
    """A quantized model in the other form, with the same integer function.

    ``integers`` gives QLinear operators also to what ONNX Runtime computes in float in QDQ form.

    Raises:
        ModelError: The model cannot be read, or has no integers.
        UnsupportedError: An operator of it has no such form.
    """
    graph = require_quantized(open_model(model))
    with explain_failure(graph):
        return converted(graph, form, integers=integers)


def lint(model: Model, *, target: str = "litert") -> tuple[Finding, ...]:
    """Where a quantized model departs from a target's specification.

    Raises:
        ModelError: The model cannot be read, or has no integers.
        UsageError: The target is unknown, or has no specification.
    """
    graph = require_quantized(open_model(model))
    with explain_failure(graph):
        return findings(graph, target)
