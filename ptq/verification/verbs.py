"""Verbs of ptq for a quantized model of any tool: verify, portability, convert, lint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

from ptq.core.errors import ModelError, UsageError
from ptq.core.option_checks import (
    MAX_BATCH,
    refuse_unknown_options,
    require_choice,
    require_count,
    require_flag,
)
from ptq.core.run_options import Progress, RunOptions
from ptq.core.targets import TargetName, get_target
from ptq.data import DataSource, Preparation
from ptq.data.sample_store import CacheOption
from ptq.data.splits import SampleOptions
from ptq.data.workers.cluster_adapters import Cluster
from ptq.data.workers.start_workers import resolve_data, start_workers, stop_workers_at_end
from ptq.executor.arithmetics import ArithmeticName, kernels_of_arithmetic
from ptq.executor.runtimes.registry import OWN_RUNTIMES, RUNTIMES, RuntimeName, require_installed
from ptq.executor.tflite_export import encode_tflite
from ptq.kernels.thread_pool import use_given_threads
from ptq.model.converted import Converted
from ptq.model.graph import Graph
from ptq.model.metadata import PROVENANCE, read_record, write_record
from ptq.model.open import Model, open_model, require_quantized, source_path, tflite_content
from ptq.model.session.failure import explain_failure
from ptq.model.session.session import Session
from ptq.rewrite.border.element_types import has_integer_border, open_with_float_border
from ptq.rewrite.tflite.write import DEFAULT_TFLITE, InputOutputType, TfliteOptions
from ptq.solver.recipe import QuantizedForm
from ptq.verification.conversion import convert_graph
from ptq.verification.lint import choose_rules, lint_graph
from ptq.verification.lint_preprocess import check_recorded_preprocess
from ptq.verification.lint_rules import Finding
from ptq.verification.portability import Portability, measure_portability
from ptq.verification.runtime_check import check_in_runtime
from ptq.verification.verify import Verification, verify_graph
from ptq.verification.verify_tflite import verify_tflite


@refuse_unknown_options
@stop_workers_at_end
@use_given_threads
def verify(
    model: Model,
    data: DataSource,
    *,
    arithmetic: ArithmeticName = "ort",
    optimize: bool = True,
    runtime: RuntimeName | None = None,
    against: Model | None = None,
    preprocess: Preparation | None = None,
    samples: int | None = None,
    skip_bad_samples: bool = False,
    cache: CacheOption | None = None,
    threads: int = 0,
    workers: int = 1,
    cluster: Cluster | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Compare every integer tensor of a quantized model between its runtime and the integer executor.

    The runtime is ONNX Runtime; of a `.tflite` file it is LiteRT: its reference kernels, or with arithmetic
    ``litert-xnnpack`` its default ones.

    Args:
        model: A quantized model.
        data: Samples.
        arithmetic: Arithmetic of the integer executor.
        optimize: Run ONNX Runtime with graph optimizations. Without them it computes in float between quantizers,
            and differences are explained.
        runtime: Another runtime, such as ``openvino`` or ``qnn``, in which the model runs too. Each tensor is
            compared with what the file says; ``runtime_check`` of the result holds the comparison.
        against: With ``runtime``: a quantized model with the same tensors, which says what is expected; None for
            ``model`` itself.
        preprocess: How images, audio or text become arrays.
        samples: Use that many samples, evenly spread; None for all.
        skip_bad_samples: Leave out bad samples instead of stopping.
        cache: Where samples are kept on disk between passes, a folder or a size; see `ptq.data.open_samples`.
        threads: Threads of ONNX Runtime, and of ptq itself; 0 is one for each core, or with workers one.
        workers: Processes for samples, this one included; see `ptq.data.workers.worker_pool`. The result is the same.
        cluster: Workers elsewhere in place of processes, as for ``calibrate``. The result is the same.
        progress: Called with each stage and its steps.

    Raises:
        ModelError: The model cannot be read, or has no integers.
        DataError: A sample is missing, unreadable or does not fit.
        UnsupportedError: The runtime is not installed.
    """
    kernels_of_arithmetic(arithmetic)
    optimize = require_flag("optimize", optimize)
    elsewhere = _require_other_runtime(runtime)
    if against is not None and elsewhere is None:
        raise UsageError("`against` says what another runtime should compute; give `runtime` too")
    run = start_workers(RunOptions(threads=threads, progress=progress), workers, cluster)
    content = tflite_content(model)
    graph = open_with_float_border(model)
    with explain_failure(graph):
        reading = SampleOptions(preprocess, samples, skip_bad_samples, cache=cache)
        opened = reading.open(resolve_data(data, cluster), graph)
        tracked = run.track(opened, "verifying")
        verification = (
            verify_graph(graph, tracked, arithmetic=arithmetic, optimize=optimize, run=run)
            if content is None
            else verify_tflite(content, graph, tracked, arithmetic=arithmetic)
        )
        check = None
        if elsewhere:
            tracked = run.track(opened, "verifying in the runtime")
            expected = None if against is None else open_with_float_border(against)
            check = check_in_runtime(graph, tracked, elsewhere, against=expected, run=run)
    applied = reading.describe(opened, graph)
    verification = replace(verification, runtime_check=check)
    return replace(verification, skipped=tuple(opened.skipped), applied_preprocess=applied)


def _require_other_runtime(runtime: RuntimeName | None) -> str | None:
    """The runtime; it must be another one than those that every verification compares.

    Raises:
        UsageError: There is no such runtime, or every verification compares it.
        UnsupportedError: It is not installed.
    """
    if runtime is None:
        return None
    if isinstance(runtime, str) and runtime in OWN_RUNTIMES:
        raise UsageError(
            f"runtime {runtime} is compared anyway; leave it out, or name another one: {', '.join(RUNTIMES)}",
            "runtime",
        )
    require_choice("runtime", runtime, RUNTIMES)
    require_installed(runtime)
    return runtime


@refuse_unknown_options
@use_given_threads
def portability(
    model: Model,
    data: DataSource,
    *,
    preprocess: Preparation | None = None,
    samples: int | None = None,
    skip_bad_samples: bool = False,
    cache: CacheOption | None = None,
    threads: int = 0,
    progress: Progress | None = None,
) -> Portability:
    """Measure where another processor could compute other integers of a quantized model.

    Args:
        model: A quantized model.
        data: Samples.
        preprocess: How images, audio or text become arrays.
        samples: Use that many samples, evenly spread; None for all.
        skip_bad_samples: Leave out bad samples instead of stopping.
        cache: Where samples are kept on disk between passes, a folder or a size; see `ptq.data.open_samples`.
        threads: Threads of ONNX Runtime, and of ptq itself; 0 is one for each core.
        progress: Called with each stage and its steps.

    Raises:
        ModelError: The model cannot be read.
        DataError: A sample is missing, unreadable or does not fit.
    """
    run = RunOptions(threads=threads, progress=progress)
    graph = open_model(model)
    with explain_failure(graph):
        opened = SampleOptions(preprocess, samples, skip_bad_samples, cache=cache).open(data, graph)
        return measure_portability(graph, run.track(opened, "checking portability"))


@refuse_unknown_options
def convert(
    model: Model,
    form: QuantizedForm,
    *,
    integers: bool = False,
    io: InputOutputType = "float",
    static_batch: int | None = None,
) -> Converted:
    """Convert a quantized model to another form, with the same integer function.

    Its metadata stay; a provenance names the new form too, as ``converted_to``. The result says why if ONNX Runtime
    cannot load it.

    Args:
        model: A quantized model.
        form: ``qdq``, ``qoperator``, or ``tflite``: LiteRT's file, for models with int8 activations.
        integers: In QOperator form, convert also operators that ONNX Runtime computes in float in QDQ form.
        io: Element type of inputs and outputs of a `.tflite` file: ``float``, ``int8`` or ``float16``. With ``float``
            those of a model that ptq quantized with integers keep these.
        static_batch: The batch of a `.tflite` file; None leaves it open where every operator allows that.

    Raises:
        ModelError: The model cannot be read, or has no integers.
        UnsupportedError: An operator cannot be converted.
        UsageError: An option is of another form.
    """
    require_choice("form", form, get_args(QuantizedForm))
    integers = require_flag("integers", integers)
    require_choice("io", io, get_args(InputOutputType))
    if static_batch is not None:
        static_batch = require_count("static_batch", static_batch, least=1, most=MAX_BATCH)
    options = TfliteOptions(io, static_batch)
    if form != "tflite" and options != DEFAULT_TFLITE:
        raise UsageError("`io` and `static_batch` are of .tflite files; choose `form` tflite")
    if integers and form != "qoperator":
        raise UsageError(f"the option integers is of form qoperator, not {form}; leave it out")
    graph = require_quantized(open_model(model))
    if form == "tflite":
        if has_integer_border(graph):  # else input and quantized input would have one name
            options = replace(options, io="int8" if io == "float" else io)
            graph = open_with_float_border(graph)
        return _convert_to_tflite(graph, options, source_path(model))
    with explain_failure(graph):
        converted = convert_graph(graph, form, integers=integers)
    provenance = read_record(converted, PROVENANCE)
    if provenance is not None:
        write_record(converted, PROVENANCE, {**provenance, "converted_to": form})
    failure = _find_load_failure(converted)
    # ONNX Runtime never loads a .tflite file itself
    loads = not failure or tflite_content(model) is not None or not _find_load_failure(graph)
    return Converted(
        converted, form, source_path(model), load_failure=failure, given_model_loads=loads
    )


def _find_load_failure(graph: Graph) -> str:
    """Why ONNX Runtime cannot load a model; empty if it can."""
    try:
        Session.for_check(graph)
    except ModelError as error:
        return str(error)
    return ""


def _convert_to_tflite(graph: Graph, options: TfliteOptions, source: Path | None) -> Converted:
    named = graph.copy()
    provenance = read_record(named, PROVENANCE)
    if provenance is not None:
        write_record(named, PROVENANCE, {**provenance, "converted_to": "tflite"})
    with explain_failure(graph):
        return Converted(named, "tflite", source, encode_tflite(named, options).content)


@refuse_unknown_options
def lint(model: Model, *, target: TargetName | None = None) -> tuple[Finding, ...]:
    """List where a quantized model breaks a target's specification, or is not covered by it.

    A preprocessing in the model's metadata that its input contradicts is listed too.

    Args:
        model: The quantized model.
        target: The target; by default the one that the model records if that has rules, else ``litert``.

    Raises:
        ModelError: The model cannot be read, or has no integers.
        UsageError: The target is unknown, or has no specification.
    """
    if target is not None:
        get_target(target)
    graph = require_quantized(open_model(model))
    with explain_failure(graph):
        return (
            *check_recorded_preprocess(graph),
            *lint_graph(graph, target or choose_rules(graph)),
        )
