"""Several forms of one model on the same samples → accuracy, fidelity to float, drops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ptq.core.errors import DataError
from ptq.core.run_options import DEFAULT_RUN, RunOptions, TrackedItems
from ptq.data import Sample, Samples
from ptq.data.labelling import Labelling
from ptq.data.labels import require_class
from ptq.data.sample_source import refuse_bad
from ptq.evaluation.baseline_check import check_baseline, doubt_drops
from ptq.evaluation.changed_samples import ChangedSamples
from ptq.evaluation.confusion import list_classes, list_confusion
from ptq.evaluation.drop import TaskChoice
from ptq.evaluation.engines import Engine
from ptq.evaluation.form_meter import FormMeter, find_class_output
from ptq.evaluation.label_mismatch import find_label_mismatch
from ptq.evaluation.measurements import Evaluation, FormMetrics
from ptq.evaluation.metrics import is_scores
from ptq.evaluation.run_forms import Opener, run_forms
from ptq.evaluation.tasks.classify import (
    ClassifyTask,
    describe_scores,
    find_two_classes,
    has_threshold,
)
from ptq.evaluation.tasks.measure import TaskMeasurement
from ptq.evaluation.tasks.request import NO_TASK
from ptq.evaluation.tasks.task import Example, Task, TaskRequest, find_states
from ptq.evaluation.user_metric import Metric, measure_metric, metric_drop

REFERENCE = "float"
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
        run: How the job runs.

    Raises:
        DataError: There is no sample, the model or the metric fails on one, or a label is not a class of the model.
        UsageError: The metric does not return numbers, or no output fits the task.
    """
    engines = {reference_form: reference, **candidates}
    meters = {name: FormMeter(len(outputs)) for name in engines}
    scores = [True] * len(outputs)
    count, labelled, kept_samples = 0, 0, []
    sizes: dict[str, int] = {}
    classes: set[int] = set()
    # with labelled boxes or texts, the reference has figures of its own
    keep = None if changed is None else changed.add
    measured = TaskMeasurement(task, list(engines if task.labels.task else candidates), keep)
    numbered = task.name in (None, "classify")  # labels of other tasks are no classes
    by_form = dict(zip(engines, openers, strict=False))
    for sample, results in run_forms(engines, samples, batch, by_form, run):
        count += 1
        watch(sample)
        expected = results[reference_form]
        labels = sample.labels if numbered else ()
        labelled += bool(labels)
        example = Example(
            sample.feed, dict(zip(outputs, expected, strict=True)), sample.name, sample.labels
        )
        states = find_states([example])
        shown = [is_scores(e) and name not in states for name, e in example.outputs.items()]
        scores = [so_far and own for so_far, own in zip(scores, shown, strict=True)]
        of_sample = {n: e.size for n, e in example.outputs.items() if is_scores(e)}
        sizes |= of_sample
        if metric is None and labels:
            classes |= set(labels)
            require_class(max(labels), of_sample, sample.name)
        for name, meter in meters.items():
            meter.add(expected, results[name], labels, sample.name)
            if metric is not None:
                meter.kept_outputs.append(dict(zip(outputs, results[name], strict=True)))
        if metric is not None:
            kept_samples.append(sample)
        else:
            named = {n: dict(zip(outputs, results[n], strict=True)) for n in engines}
            measured.add(example, named, labelled=bool(labels))
    if not count:
        items = samples.items if isinstance(samples, TrackedItems) else samples
        refuse_bad(items.skipped if isinstance(items, Samples) else ())
        raise DataError("no sample to evaluate on; give at least one")
    measured.finish()
    before = meters[reference_form]
    found, choice, threshold = measured.task, measured.choice, None
    if metric is None and numbered and (found is None or has_threshold(found)):
        found, choice = _settle_two_classes(before, outputs, classes, task)
    if has_threshold(found):
        threshold = found.threshold
        for meter in meters.values():
            meter.read_two_classes(before, outputs.index(found.output), found)
        if measured.task is None:  # its answers were not compared
            changed = None
    decides = None if isinstance(found, ClassifyTask) else found
    accuracies = [meter.result() for meter in before.accuracy]
    head = find_class_output(outputs, scores, accuracies) if decides is None else decides.output
    if isinstance(found, ClassifyTask) and (threshold is not None or head not in sizes):
        head = found.output
    position = outputs.index(head)
    if isinstance(found, ClassifyTask) and choice is not None and head != found.output:
        choice = replace(choice, output=head, why=describe_scores(head, sizes[head], sizes[head]))
    if changed is not None:
        changed.choose(head, threshold)
    has_classes = metric is not None or isinstance(found, ClassifyTask)
    origin = None if labelling is None else labelling()
    suspect = find_label_mismatch(before.accuracy[position].confusion, origin)
    unread = labelled if metric is None and accuracies[position] is None else 0
    if origin is not None and accuracies[position] is None:
        origin = replace(origin, source="", classes={}) if origin.notes else None
    forms = {
        name: FormMetrics(
            meter.accuracy[position].result(),
            {},
            figures=measured.measure_form(name)[1]
            if decides is not None and task.labels.task
            else (measure_metric(metric, meter.kept_outputs, kept_samples),)
            if metric is not None and not candidates
            else (),
        )
        if meter is before
        else FormMetrics(
            meter.accuracy[position].result(),
            dict(
                zip(
                    outputs,
                    (m.result(has_classes=has_classes) for m in meter.fidelity),
                    strict=True,
                )
            ),
            *(
                (metric_drop(metric, before.kept_outputs, meter.kept_outputs, kept_samples),)
                if metric is not None
                else (meter.measure_drop(before, position, has_classes=has_classes),)
                if decides is None
                else measured.measure_form(name)
            ),
        )
        for name, meter in meters.items()
    }
    low = check_baseline(forms[reference_form]) if decides and task.labels.task else None
    forms = forms if low is None else doubt_drops(forms, low)
    listed = {name: meter.accuracy[position] for name, meter in meters.items()}
    return Evaluation(
        samples=count,
        head=head,
        forms={
            name: replace(
                form,
                confusion=list_confusion(listed[name].confusion),
                by_class=list_classes(listed[name].confusion, listed[name].labelled),
            )
            for name, form in forms.items()
        },
        suspects=tuple(found for found in (suspect, low) if found is not None),
        labels=origin,
        unread_labels=unread,
        undefined={
            name: meter.undefined
            for name, meter in zip(outputs, before.fidelity, strict=True)
            if meter.undefined
        },
        newly_undefined={
            form: counts
            for form, meter in meters.items()
            if (counts := meter.count_new_nan(outputs))
        },
        task=choice,
        changed=() if changed is None else changed.result(),
        changed_samples=None if changed is None else changed.count,
    )


def _settle_two_classes(
    reference: FormMeter, outputs: Sequence[str], labels: set[int], request: TaskRequest
) -> tuple[Task | None, TaskChoice]:
    """The task of one value, decided by all samples: two classes, or none."""
    values = {name: reference.list_single_values(k) for k, name in enumerate(outputs)}
    found = find_two_classes(values, labels, request)
    if found is None:
        return None, NO_TASK
    return found[0], TaskChoice(found[0].name, found[0].output, found[1], asked=request.asked)
