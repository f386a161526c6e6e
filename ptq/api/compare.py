"""Two models on the same samples: accuracy, agreement, output error, size and speed of the new against the old."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

from ptq.api.accuracy_doubts import collect_doubts
from ptq.api.accuracy_options import AccuracyOptions
from ptq.api.compared_pair import ComparedModel, ComparedPair
from ptq.core.errors import ModelError
from ptq.core.option_checks import refuse_unknown_options
from ptq.core.run_options import DEFAULT_RUN, Progress, RunOptions
from ptq.data import DataSource, Preparation, Preprocess
from ptq.data.sample_store import CacheOption
from ptq.data.splits import SampleOptions, has_free_batch
from ptq.data.workers.cluster_adapters import Cluster
from ptq.data.workers.start_workers import resolve_data, start_workers, stop_workers_at_end
from ptq.evaluation.batching.batch_size import choose_batch
from ptq.evaluation.changed_samples import ChangedSamples
from ptq.evaluation.checks.input_shift_check import InputShiftCheck, read_recorded_inputs
from ptq.evaluation.checks.mode_check import check_mode
from ptq.evaluation.checks.noise_check import check_noise
from ptq.evaluation.checks.preprocessing_check import explain_low_accuracy
from ptq.evaluation.checks.record_check import check_other_record, choose_record
from ptq.evaluation.comparison import Comparison
from ptq.evaluation.diagnosis import Diagnosis
from ptq.evaluation.drop import AGREEMENT, Drop
from ptq.evaluation.evaluate import evaluate_engines
from ptq.evaluation.measurements import REFERENCE
from ptq.evaluation.tasks.label_options import LabelOptions
from ptq.evaluation.tasks.task import TaskName
from ptq.evaluation.user_metric import Metric
from ptq.kernels.thread_pool import use_given_threads
from ptq.model.graph import Graph
from ptq.model.node import get_dtype, get_name
from ptq.model.open import Model, count_file_bytes, display_name, get_source_path
from ptq.model.proto.serialize import count_serialized_bytes
from ptq.model.session.failure import explain_failure
from ptq.rewrite.border.batch import require_own_batch

AGREEMENT_WITH_OLD = "agreement with the old model"
_NEW, _OLD_MODEL = "new", "the old model"
_OPTION_ADVICE = "leave the option out, or quantize with it"
_SAMPLES_ADVICE = "prepare these samples as the new model records"


@refuse_unknown_options
@stop_workers_at_end
@use_given_threads
def compare(
    old: Model,
    new: Model,
    data: DataSource,
    *,
    preprocess: Preparation | None = None,
    samples: int | None = None,
    skip_bad_samples: bool = False,
    cache: CacheOption | None = None,
    max_drop: float | None = None,
    metric: Metric | None = None,
    task: TaskName | None = None,
    boxes: str | os.PathLike[str] | None = None,
    transcripts: str | os.PathLike[str] | None = None,
    alphabet: str | os.PathLike[str] | None = None,
    batch: int = DEFAULT_RUN.evaluation_batch,
    threads: int = 0,
    workers: int = 1,
    cluster: Cluster | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Measure what a new model loses or wins against an old one; each may be float or quantized.

    A `.tflite` file runs in LiteRT, every other model in ONNX Runtime.

    Args:
        old: The model to compare with.
        new: The model that would replace it.
        data: Samples (see ``ptq.data.open_samples``).
        preprocess: How images, audio or text become arrays.
        samples: Use that many samples, evenly spread.
        skip_bad_samples: Leave unreadable samples out instead of stopping.
        cache: Where samples are kept on disk between passes, a folder or a size; see `ptq.data.open_samples`.
        max_drop: Largest accepted loss, in points of the metric; ``budget`` holds the result.
        metric: The metric of the drop, as for ``ptq.quantize``.
        task: What the outputs decide, as for ``ptq.quantize``.
        boxes: Labels of boxes: COCO's JSON file, or a folder of YOLO's text files. mAP50 and mAP50-95 are measured.
        transcripts: Labels of texts, as for ``ptq.evaluate``.
        alphabet: The characters of a recognizer's classes, as for ``ptq.evaluate``.
        batch: Samples that run at once, if the models take any number.
        threads: Threads of ONNX Runtime, and of ptq itself; 0 is one for each core, or with workers one.
        workers: Processes for samples, this one included; see `ptq.data.workers.worker_pool`. The result is the same.
        cluster: Workers elsewhere in place of processes, as for ``calibrate``. The result is the same.
        progress: Called with each stage and its number of steps; see `ptq.core.run_options.Progress`.

    Raises:
        ModelError: A model cannot be read or run, or the two have different inputs or outputs.
        DataError: A sample is missing, unreadable or does not fit.
        UsageError: An option makes no sense.
        Cancelled: The progress callback returned False or raised an exception.
    """
    asked = AccuracyOptions(max_drop, metric, task, LabelOptions(boxes, transcripts, alphabet))
    run = start_workers(
        RunOptions(threads=threads, evaluation_batch=batch, progress=progress), workers, cluster
    )
    compared = ComparedModel.read(old), ComparedModel.read(new)
    old_graph, new_graph = (model.graph for model in compared)
    _require_same_types(old_graph, new_graph)
    pair = ComparedPair(*compared, run)
    with explain_failure(new_graph):
        reading = SampleOptions(
            preprocess, samples, skip_bad_samples, cache=cache,
            recorded=choose_record(new_graph, old_graph, _OLD_MODEL),
        )  # fmt: skip
        opened = reading.open(resolve_data(data, cluster), new_graph)
        first = None if has_free_batch(old_graph) else next(iter(opened), None)
        if first is not None:
            require_own_batch(old_graph, first.feed, display_name(old))
    shift = InputShiftCheck(read_recorded_inputs(new_graph, old_graph))
    outputs = [get_name(v) for v in new_graph.outputs]
    evaluation = evaluate_engines(
        pair.old_engine(),
        {_NEW: pair.new_engine()},
        run.track(opened, "comparing"),
        outputs,
        batch=1 if pair.has_fixed_batch else choose_batch(run, old_graph, new_graph),
        metric=metric,
        task=asked.read_request(opened, new_graph),
        labelling=lambda: opened.labelling,
        changed=ChangedSamples(_NEW, opened.preprocess, new_graph.metadata),
        watch=shift.add,
        openers=pair.openers(),
        run=run,
    )
    old_form, form = evaluation.forms[REFERENCE], evaluation.forms[_NEW]
    drop, noise = _name_drop(form.drop), check_noise(new_graph, old_graph)
    budget = asked.check_drop(drop, noise)
    difference = reading.describe(opened, new_graph).difference
    doubts = (
        *_find_difference(difference, serious=preprocess not in (None, Preprocess())),
        *noise,
        *check_mode(old_graph, new_graph),
        *explain_low_accuracy(evaluation, opened, outputs, pair.old_engine, _OLD_MODEL),
        *check_other_record(new_graph, old_graph, _OLD_MODEL, opened),
    )
    suspects = collect_doubts(doubts, evaluation, opened, shift, budget, _OLD_MODEL)
    speed, runtimes = pair.measure_speed(next(iter(opened)).feed)
    return Comparison(
        old=display_name(old),
        new=display_name(new),
        samples=evaluation.samples,
        head=evaluation.head,
        old_accuracy=old_form.accuracy,
        new_accuracy=form.accuracy,
        outputs=form.outputs,
        drop=drop,
        old_bytes=_count_bytes(old, compared[0]),
        new_bytes=_count_bytes(new, compared[1]),
        speed=speed.ratio,
        preprocessing={} if opened.preprocess is None else opened.preprocess.describe(),
        budget=budget,
        skipped=tuple(opened.skipped),
        suspects=suspects,
        labels=evaluation.labels,
        task=evaluation.task,
        figures=form.figures,
        old_figures=old_form.figures,
        changed=evaluation.changed,
        changed_samples=evaluation.changed_samples,
        old_confusion=old_form.confusion,
        new_confusion=form.confusion,
        old_by_class=old_form.by_class,
        new_by_class=form.by_class,
        speed_runtimes=runtimes,
        speed_interval=speed.interval,
    )


def _name_drop(drop: Drop | None) -> Drop:
    """The drop of the new model, which agrees with the old one and not with float."""
    assert drop is not None
    return replace(drop, metric=AGREEMENT_WITH_OLD) if drop.metric == AGREEMENT else drop


def _find_difference(difference: str, *, serious: bool) -> Iterator[Diagnosis]:
    """What samples have otherwise than the record; it is serious if the user asked for that."""
    if difference:
        advice = _OPTION_ADVICE if serious else _SAMPLES_ADVICE
        yield Diagnosis(difference, "samples", advice, serious)


def _count_bytes(model: Model, compared: ComparedModel) -> int:
    path = get_source_path(model)
    if path is not None:
        return count_file_bytes(path)
    if compared.content is not None:
        return len(compared.content)
    return count_serialized_bytes(compared.graph.model)


def _require_same_types(old: Graph, new: Graph) -> None:
    types = [{get_name(v): str(get_dtype(v)) for v in graph.inputs} for graph in (old, new)]
    for name in types[0].keys() & types[1].keys():
        if types[0][name] != types[1][name]:
            raise ModelError(
                f"input {name} is {types[0][name]} in the old model and {types[1][name]} in the new one; "
                "compare models with the same inputs and outputs"
            )
