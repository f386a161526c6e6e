"""Several forms of one model on the same samples → accuracy, fidelity to float, drops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from ptq.core.errors import DataError
from ptq.core.run_options import DEFAULT_RUN, RunOptions, TrackedItems
from ptq.data import Sample, Samples
from ptq.data.labelling import Labelling
from ptq.data.labels import require_class
from ptq.data.sample_source import refuse_bad
from ptq.evaluation.baseline_check import check_baseline, doubt_drops
from ptq.evaluation.changed_samples import ChangedSamples
from ptq.evaluation.confusion import list_confusion
from ptq.evaluation.drop import Drop, agreement_drop, error_drop, top1_drop
from ptq.evaluation.engines import Engine
from ptq.evaluation.label_mismatch import find_label_mismatch
from ptq.evaluation.measurements import Evaluation, FormMetrics
from ptq.evaluation.metrics import (
    Accuracy,
    AccuracyMeter,
    FidelityMeter,
    is_scores,
)
from ptq.evaluation.run_forms import Opener, run_forms
from ptq.evaluation.tasks.measure import TaskMeasurement
from ptq.evaluation.tasks.task import Example, TaskRequest
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
    meters = {name: _FormMeter(len(outputs)) for name in engines}
    scores = [True] * len(outputs)
    count, kept_samples = 0, []
    # with labelled boxes or texts, the reference has figures of its own
    keep = None if changed is None else changed.add
    measured = TaskMeasurement(task, list(engines if task.labels.task else candidates), keep)
    numbered = task.name in (None, "classify")  # labels of other tasks are no classes
    by_form = dict(zip(engines, openers, strict=False))
    for sample, results in run_forms(engines, samples, batch, by_form, run):
        count += 1
        watch(sample)
        expected = results[reference_form]
        scores = [so_far and is_scores(e) for so_far, e in zip(scores, expected, strict=True)]
        if metric is None and numbered and sample.labels:
            sizes = {n: e.size for n, e in zip(outputs, expected, strict=True) if is_scores(e)}
            require_class(max(sample.labels), sizes, sample.name)
        for name, meter in meters.items():
            meter.add(expected, results[name], sample.labels)
            if metric is not None:
                meter.kept_outputs.append(dict(zip(outputs, results[name], strict=True)))
        if metric is not None:
            kept_samples.append(sample)
        else:
            named = {n: dict(zip(outputs, results[n], strict=True)) for n in engines}
            example = Example(sample.feed, named[reference_form], sample.name, sample.labels)
            measured.add(example, named, labelled=bool(sample.labels) and numbered)
    if not count:
        items = samples.items if isinstance(samples, TrackedItems) else samples
        refuse_bad(items.skipped if isinstance(items, Samples) else ())
        raise DataError("no sample to evaluate on; give at least one")
    measured.finish()
    decides = measured.task if measured.task and measured.task.name != "classify" else None
    head = (
        decides.output
        if decides is not None
        else _find_class_output(
            outputs, scores, [meter.result() for meter in meters[reference_form].accuracy]
        )
    )
    position = outputs.index(head)
    before = meters[reference_form]
    labels = None if labelling is None else labelling()
    suspect = find_label_mismatch(before.accuracy[position].confusion, labels)
    if labels is not None and before.accuracy[position].result() is None:
        labels = replace(labels, source="", classes={}) if labels.notes else None
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
            dict(zip(outputs, (m.result() for m in meter.fidelity), strict=True)),
            *(
                (metric_drop(metric, before.kept_outputs, meter.kept_outputs, kept_samples),)
                if metric is not None
                else (meter.measure_drop(before, position),)
                if decides is None
                else measured.measure_form(name)
            ),
        )
        for name, meter in meters.items()
    }
    low = check_baseline(forms[reference_form]) if decides and task.labels.task else None
    forms = forms if low is None else doubt_drops(forms, low)
    listed = {name: list_confusion(m.accuracy[position].confusion) for name, m in meters.items()}
    return Evaluation(
        samples=count,
        head=head,
        forms={name: replace(form, confusion=listed[name]) for name, form in forms.items()},
        suspects=tuple(found for found in (suspect, low) if found is not None),
        labels=labels,
        task=measured.choice,
        changed=() if changed is None else changed.result(),
        changed_samples=None if changed is None else changed.count,
    )


class _FormMeter:
    """Meters of one form of the model, one for each output."""

    def __init__(self, outputs: int) -> None:
        self.accuracy = [AccuracyMeter() for _ in range(outputs)]
        self.fidelity = [FidelityMeter() for _ in range(outputs)]
        self.kept_outputs: list[dict[str, NDArray[Any]]] = []

    def add(
        self, reference: list[NDArray[Any]], outputs: list[NDArray[Any]], labels: tuple[int, ...]
    ) -> None:
        for position, (expected, output) in enumerate(zip(reference, outputs, strict=True)):
            self.fidelity[position].add(expected, output)
            if is_scores(expected):
                self.accuracy[position].add(output, labels)

    def measure_drop(self, before: _FormMeter, position: int) -> Drop:
        """Drop of one output against another form."""
        fidelity = self.fidelity[position]
        correct = self.accuracy[position].top1_correct
        if correct:
            return top1_drop(before.accuracy[position].top1_correct, correct)
        if len(fidelity.agreements) == len(fidelity.noise):
            return agreement_drop(fidelity.agreements)
        return error_drop(fidelity.signal, fidelity.noise)


def _find_class_output(
    outputs: Sequence[str], scores: Sequence[bool], accuracies: Sequence[Accuracy | None]
) -> str:
    """Name of the output that holds class scores: the one on which the float model is most accurate."""
    ranked = sorted(
        range(len(outputs)),
        key=lambda i: (-(a.top1 if (a := accuracies[i]) is not None else 0.0), not scores[i], i),
    )
    return outputs[ranked[0]]
