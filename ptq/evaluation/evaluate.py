"""Several forms of one model on the same samples → accuracy, fidelity to float, drops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ptq.core.errors import DataError
from ptq.core.run_options import DEFAULT_RUN, RunOptions, untrack_items
from ptq.data import Sample, Samples
from ptq.data.labelling import Labelling
from ptq.data.sample_source import refuse_bad
from ptq.evaluation.changed_samples import ChangedSamples
from ptq.evaluation.checks.baseline_check import check_baseline, doubt_drops
from ptq.evaluation.checks.label_mismatch import find_label_mismatch
from ptq.evaluation.form_meters import EvaluationMeter
from ptq.evaluation.measurements import REFERENCE, Evaluation
from ptq.evaluation.runs.engines import Engine
from ptq.evaluation.runs.run_forms import KnownOutputs, Opener, run_forms
from ptq.evaluation.tasks.task import TaskRequest
from ptq.evaluation.user_metric import Metric

ANY_TASK = TaskRequest()


def evaluate_engines(
    reference: Engine,
    candidates: Mapping[str, Engine],
    samples: Iterable[Sample],
    outputs: Sequence[str],
    *,
    batch: int = 1,
    metric: Metric | None = None,
    task: TaskRequest = ANY_TASK,
    labelling: Callable[[], Labelling] | None = None,
    reference_form: str = REFERENCE,
    changed: ChangedSamples | None = None,
    watch: Callable[[Sample], None] = lambda _: None,
    openers: Sequence[Opener | None] = (),
    known: KnownOutputs | None = None,
    run: RunOptions = DEFAULT_RUN,
) -> Evaluation:
    """Run the float model and its other forms on the samples, and compare them.

    Args:
        reference: Engine of the float model.
        candidates: Engines of its other forms by name, with the same inputs and outputs.
        samples: One feed each.
        outputs: Names of the outputs, in order.
        batch: Number of samples of equal shape that run at once, up to 2 MB; 1 if the model has a fixed batch.
        metric: Metric of the drops; None for that of the task. With a metric, the samples and all outputs stay in
            memory, and no task is measured. Without candidates, its value is a figure of the reference.
        task: The task that is asked for; by default it is recognized from the first samples.
        labelling: Returns where the labels of the samples come from; called after they were read.
        reference_form: Name of the form that the reference is; ``int8`` for a quantized model alone.
        changed: Collects the samples whose answer its form changes; None to keep none.
        watch: Called with each sample, in order.
        openers: Open the engines in another process, that of the reference first. None for an engine that runs in
            this one; empty for all.
        known: Outputs of the reference that are known.
        run: How the job runs.

    Raises:
        DataError: There is no sample, the model or the metric fails on one, or a label is not a class of the model.
        UsageError: The metric does not return numbers, or no output fits the task.
    """
    engines = {reference_form: reference, **candidates}
    watch_answers = None if changed is None else changed.add
    meters = EvaluationMeter(list(engines), outputs, metric, task, watch_answers)
    by_form = dict(zip(engines, openers, strict=False))
    for sample, results in run_forms(
        engines, samples, batch, by_form, run, {reference_form: known} if known else None
    ):
        watch(sample)
        meters.add(sample, results)
    if not meters.samples:
        items = untrack_items(samples)
        refuse_bad(items.skipped if isinstance(items, Samples) else ())
        raise DataError("no sample to evaluate on; give at least one")
    by = meters.decide()
    # without a task there are no answers, and none were compared; the same where the task is known only now
    counted = None if by.task is None or by.is_late else changed
    if counted is not None:
        counted.choose(by.head, by.threshold)
    origin = None if labelling is None else labelling()
    accuracy = meters.reference.accuracy[by.position]
    suspect = find_label_mismatch(accuracy.confusion, origin)
    has_accuracy = accuracy.result() is not None
    if origin is not None and not has_accuracy:
        origin = replace(origin, source="", classes={}) if origin.notes else None
    forms = meters.measure_forms(by)
    low = None
    if by.has_task_drop and task.labels.task:
        low = check_baseline(forms[reference_form])
    if low is not None:
        forms = doubt_drops(forms, low)
    named = zip(outputs, meters.reference.fidelity, strict=True)
    new_nan = {form: meter.count_new_nan(outputs) for form, meter in meters.forms.items()}
    return Evaluation(
        samples=meters.samples,
        head=by.head,
        forms=forms,
        suspects=tuple(found for found in (suspect, low) if found is not None),
        labels=origin,
        unread_labels=meters.labelled if metric is None and not has_accuracy else 0,
        undefined={name: meter.undefined for name, meter in named if meter.undefined},
        newly_undefined={form: counts for form, counts in new_nan.items() if counts},
        task=by.choice,
        changed=() if counted is None else counted.result(),
        changed_samples=None if counted is None else counted.count,
    )
