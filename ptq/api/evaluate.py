"""The verb ``evaluate``: a model measured on samples, alone or against a float model."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import Final, get_args

from ptq.api.accuracy_doubts import collect_doubts
from ptq.api.accuracy_options import AccuracyOptions
from ptq.api.measured_model import MeasuredModel
from ptq.core.errors import UsageError
from ptq.core.option_checks import refuse_unknown_options, require_choice
from ptq.core.run_options import DEFAULT_RUN, Progress, RunOptions
from ptq.data import DataSource, Preparation, Samples
from ptq.data.sample_store import CacheOption
from ptq.data.splits import SampleOptions
from ptq.data.workers.cluster_adapters import Cluster
from ptq.data.workers.start_workers import resolve_data, start_workers, stop_workers_at_end
from ptq.evaluation.batching.batch_size import choose_batch
from ptq.evaluation.changed_samples import ChangedSamples
from ptq.evaluation.checks.input_shift_check import InputShiftCheck, read_recorded_inputs
from ptq.evaluation.checks.mode_check import check_mode
from ptq.evaluation.checks.noise_check import check_noise
from ptq.evaluation.checks.preprocessing_check import explain_low_accuracy
from ptq.evaluation.checks.record_check import REFERENCE_MODEL, check_other_record, choose_record
from ptq.evaluation.checks.relation_check import check_reference, check_relation
from ptq.evaluation.diagnosis import Diagnosis
from ptq.evaluation.evaluate import evaluate_engines
from ptq.evaluation.measurements import REFERENCE, Evaluation
from ptq.evaluation.runs.engines import EngineName, make_reference_engine, make_session_engine
from ptq.evaluation.tasks.label_options import LabelOptions
from ptq.evaluation.tasks.task import TaskName
from ptq.evaluation.user_metric import Metric
from ptq.executor.arithmetics import ArithmeticName, get_kernels
from ptq.executor.runtimes.registry import RuntimeName
from ptq.kernels.thread_pool import use_given_threads
from ptq.model.graph import Graph
from ptq.model.node import get_name
from ptq.model.open import Model, is_quantized, open_model, read_tflite_content, require_quantized
from ptq.model.session.failure import explain_failure
from ptq.model.session.session import Session
from ptq.rewrite.border.element_types import open_with_float_border

DEFAULT_ARITHMETIC: Final = "ort"
NEEDS_FLOAT_MODEL: Final = "a drop is measured against the float model; give it with `against`"


@refuse_unknown_options
@stop_workers_at_end
@use_given_threads
def evaluate(
    model: Model,
    data: DataSource,
    *,
    against: Model | None = None,
    engine: EngineName = "ort",
    runtime: RuntimeName | None = None,
    arithmetic: ArithmeticName = DEFAULT_ARITHMETIC,
    preprocess: Preparation | None = None,
    samples: int | None = None,
    skip_bad_samples: bool = False,
    cache: CacheOption | None = None,
    batch: int = DEFAULT_RUN.evaluation_batch,
    threads: int = 0,
    workers: int = 1,
    cluster: Cluster | None = None,
    max_drop: float | None = None,
    metric: Metric | None = None,
    task: TaskName | None = None,
    boxes: str | os.PathLike[str] | None = None,
    transcripts: str | os.PathLike[str] | None = None,
    alphabet: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Measure a model on samples, and compare it with a float model if one is given.

    Args:
        model: A float model or a quantized one.
        data: Samples (see ``ptq.data.open_samples``).
        against: The float model to compare with.
        engine: ``ort`` runs ONNX Runtime, or LiteRT for a `.tflite` file; ``integer`` runs the integer executor.
        runtime: What runs the model, in place of ``engine``: one of these two, or another runtime, such as
            ``openvino``, ``litert`` or ``qnn``. The float model of ``against`` runs in ONNX Runtime.
        arithmetic: The integer arithmetic of the executor; only with engine ``integer``.
        preprocess: How images, audio or text become arrays.
        samples: Use that many samples, evenly spread.
        skip_bad_samples: Leave unreadable samples out instead of stopping.
        cache: Where samples are kept on disk between passes, a folder or a size; see `ptq.data.open_samples`.
        batch: Samples that run at once, if the model takes any number.
        threads: Threads of ONNX Runtime, and of ptq itself; 0 is one for each core, or with workers one.
        workers: Processes for samples, this one included; see `ptq.data.workers.worker_pool`. The result is the same.
        cluster: Workers elsewhere in place of processes, as for ``calibrate``. The result is the same.
        max_drop: Largest accepted loss against the float model, in points of the metric; ``budget`` holds the result.
        metric: The metric of accuracy drops, as for ``quantize``; without ``against`` its value is a figure.
        task: What the outputs decide, as for ``quantize``.
        boxes: Labels of boxes: COCO's JSON file, or a folder of YOLO's text files. mAP50 and mAP50-95 are measured.
        transcripts: Labels of texts: a table of samples and texts, or a text for each sample on a line. Exact lines
            and wrong characters are measured.
        alphabet: The characters of a recognizer's classes, one a line, or a JSON vocabulary; by default those of the
            model's metadata.
        progress: Called with each stage and its number of steps; see `ptq.core.run_options.Progress`.

    Returns:
        The measurements. Those of the model are called ``int8``, ``integers`` with engine ``integer``, or
        ``float``; a float model that is compared with another one is ``other``.

    Raises:
        ModelError: A model cannot be read or run, or is not quantized as engine ``integer`` needs.
        DataError: A sample is missing, unreadable or does not fit.
        UnsupportedError: The runtime is not installed.
        UsageError: An option makes no sense.
        Cancelled: The progress callback returned False or raised an exception.
    """
    require_choice("engine", engine, get_args(EngineName))
    asked = AccuracyOptions(max_drop, metric, task, LabelOptions(boxes, transcripts, alphabet))
    if max_drop is not None and against is None:
        raise UsageError(NEEDS_FLOAT_MODEL)
    content = read_tflite_content(model)
    runtime = _choose_runtime(engine, runtime, is_tflite=content is not None)
    _check_arithmetic(runtime, arithmetic)
    if alphabet is not None and transcripts is None and against is None:
        raise UsageError(
            "`alphabet` has no effect without `transcripts` or `against`; give one of them, or leave it out"
        )
    run = start_workers(
        RunOptions(threads=threads, evaluation_batch=batch, progress=progress), workers, cluster
    )
    graph = open_with_float_border(model)
    if runtime == "integer":
        require_quantized(graph)
    compared = None if against is None else open_model(against)
    recorded = None if compared is None else choose_record(graph, compared, REFERENCE_MODEL)
    with explain_failure(graph):
        reading = SampleOptions(
            preprocess, samples, skip_bad_samples, cache=cache, recorded=recorded
        )
        opened = reading.open(resolve_data(data, cluster), graph)
        measured = MeasuredModel.open(runtime, graph, content, arithmetic, run)
    reference, openers = measured.engine, measured.openers
    if compared is not None:
        reference = make_reference_engine(compared, graph, run)
        openers = openers and (
            partial(make_reference_engine, compared, graph, run.for_job()),
            *openers,
        )
    form = _name_form(graph, runtime, is_compared=compared is not None)
    shift = InputShiftCheck(read_recorded_inputs(graph))
    outputs = [get_name(v) for v in graph.outputs]
    evaluation = evaluate_engines(
        reference,
        {} if compared is None else {form: measured.engine},
        run.track(opened, "evaluating"),
        outputs,
        batch=1 if measured.has_fixed_batch else choose_batch(run, graph),
        metric=metric,
        task=asked.read_request(opened, graph),
        labelling=lambda: opened.labelling,
        reference_form=form if compared is None else REFERENCE,
        changed=None
        if compared is None
        else ChangedSamples(form, opened.preprocess, graph.metadata),
        watch=shift.add,
        openers=openers,
        run=run,
    )
    title = "the float model" if compared is not None or form == "float" else "the model"
    found = explain_low_accuracy(
        evaluation,
        opened,
        outputs,
        # the integer executor is slow, and computes nearly the same
        lambda: (
            make_session_engine(Session(graph, threads=run.threads))
            if runtime == "integer" and compared is None
            else reference
        ),
        title,
    )
    noise = check_noise(graph) if compared is None else check_noise(graph, compared)
    drop = next((form.drop for form in evaluation.forms.values() if form.drop is not None), None)
    budget = asked.check_drop(drop, noise)
    doubts = (
        *check_mode(graph),
        *(noise or check_relation(evaluation)),
        *([] if compared is None else _check_reference(graph, compared, opened)),
        *found,
    )
    return replace(
        evaluation,
        skipped=tuple(opened.skipped),
        suspects=collect_doubts(doubts, evaluation, opened, shift, budget, title),
        applied_preprocess=reading.describe(opened, graph),
        runtime=runtime,
        budget=budget,
        placement=() if measured.elsewhere is None else measured.elsewhere.placement(),
    )


def _choose_runtime(
    engine: EngineName, runtime: RuntimeName | None, *, is_tflite: bool
) -> RuntimeName:
    """The runtime that is asked for by either name; LiteRT for a `.tflite` file if none is.

    Raises:
        UsageError: There is no such runtime, or the two differ.
    """
    if runtime is None:
        return "litert" if is_tflite and engine == "ort" else engine
    require_choice("runtime", runtime, get_args(RuntimeName))
    if engine not in ("ort", runtime):
        raise UsageError(f"engine {engine} and runtime {runtime} differ; give one of them")
    return runtime


def _check_arithmetic(runtime: RuntimeName, arithmetic: ArithmeticName) -> None:
    """Require an arithmetic that exists, and the integer executor for another one than the default.

    Raises:
        UsageError: There is no such arithmetic, or it has no effect.
    """
    get_kernels(arithmetic)
    if runtime != "integer" and arithmetic != DEFAULT_ARITHMETIC:
        raise UsageError(
            f"arithmetic {arithmetic} is of the integer executor; choose `engine` integer, or leave `arithmetic` out"
        )


def _name_form(graph: Graph, runtime: RuntimeName, *, is_compared: bool) -> str:
    """What the model is called among the forms of an evaluation."""
    if runtime == "integer":
        return "integers"
    if is_quantized(graph):
        return "int8"
    return "other" if is_compared else "float"


def _check_reference(graph: Graph, compared: Graph, samples: Samples) -> tuple[Diagnosis, ...]:
    """Doubts about the float model that a model is compared with."""
    return (
        *check_reference(compared),
        *check_other_record(graph, compared, REFERENCE_MODEL, samples),
    )
