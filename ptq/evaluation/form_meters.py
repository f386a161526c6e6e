"""Meters of the forms of one model on the same samples, and the output and task that decide about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from ptq.data import Sample
from ptq.data.labels.label_numbers import require_class
from ptq.evaluation.confusion import list_classes, list_confusion
from ptq.evaluation.drop import (
    Drop,
    TaskChoice,
    measure_agreement_drop,
    measure_error_drop,
    measure_top1_drop,
)
from ptq.evaluation.measurements import FormMetrics
from ptq.evaluation.metrics import (
    AccuracyMeter,
    FidelityMeter,
    Figure,
    find_class_output,
    is_scores,
)
from ptq.evaluation.tasks.classify import (
    ClassifyTask,
    describe_scores,
    find_two_classes,
    has_threshold,
)
from ptq.evaluation.tasks.measure import TaskMeasurement, Watch
from ptq.evaluation.tasks.request import NO_TASK
from ptq.evaluation.tasks.task import Example, Task, TaskRequest, find_states
from ptq.evaluation.user_metric import Metric, measure_metric, measure_metric_drop


class FormMeter:
    """Meters of one form of the model, one for each output."""

    def __init__(self, outputs: int) -> None:
        """``outputs`` is their number."""
        self.accuracy = [AccuracyMeter() for _ in range(outputs)]
        self.fidelity = [FidelityMeter() for _ in range(outputs)]
        self.kept_outputs: list[dict[str, NDArray[Any]]] = []
        self._values: list[list[tuple[NDArray[Any], tuple[int, ...], str]]] = [
            [] for _ in range(outputs)
        ]

    def add(
        self,
        reference: list[NDArray[Any]],
        outputs: list[NDArray[Any]],
        labels: tuple[int, ...],
        name: str,
    ) -> None:
        """Add one sample: outputs of the float model and of this form, its accepted classes and its name."""
        for position, (expected, output) in enumerate(zip(reference, outputs, strict=True)):
            self.fidelity[position].add(expected, output)
            if is_scores(expected):
                self.accuracy[position].add(output, labels)
            elif expected.size == 1:
                self._values[position].append((output, labels, name))

    def count_new_nan(self, outputs: Sequence[str]) -> dict[str, int]:
        """Samples on which this form gives NaN and float does not, by output; those with 0 are left out."""
        pairs = zip(outputs, self.fidelity, strict=True)
        return {name: meter.newly_undefined for name, meter in pairs if meter.newly_undefined}

    def list_single_values(self, position: int) -> list[NDArray[Any]]:
        """The values of an output that gives one value on each sample; else none."""
        values = [value for value, _, _ in self._values[position]]
        return values if len(values) == len(self.fidelity[position].signal) else []

    def read_two_classes(self, reference: FormMeter, position: int, task: ClassifyTask) -> None:
        """Read the single values of an output as two classes: accuracy and agreement are known then.

        Args:
            reference: The meter of the float model.
            position: Position of the output.
            task: Its name and threshold.

        Raises:
            DataError: A label is neither 0 nor 1.
        """
        output, before = task.output, reference._values[position]
        pairs = zip(before, self._values[position], strict=True)
        for (expected, labels, name), (value, _, _) in pairs:
            require_class(max(labels, default=-1), {output: 2}, name)
            self.accuracy[position].add(task.score(value), labels)
            changed = task.compare({output: expected}, {output: value}, {})[0]
            self.fidelity[position].agreements.append(not changed)

    def measure_drop(self, before: FormMeter, position: int, *, has_classes: bool) -> Drop:
        """Drop of one output against another form; of its error's energy if no classes decide."""
        fidelity = self.fidelity[position]
        correct = self.accuracy[position].top1_correct
        if correct:
            return measure_top1_drop(before.accuracy[position].top1_correct, correct)
        counts = has_classes or fidelity.has_indices
        if counts and len(fidelity.agreements) == len(fidelity.noise):
            return measure_agreement_drop(fidelity.agreements)
        return measure_error_drop(fidelity.signal, fidelity.noise)


@dataclass(frozen=True)
class Decider:
    """What decides about the model.

    Attributes:
        head: Name of the output that labels are compared with.
        position: Its position among the outputs.
        task: The task; None if there is none, or with a metric of the user.
        choice: The task in words; None with a metric of the user.
        has_classes: Whether drops count changed classes, not the energy of the error.
        is_late: Whether the task is known only now, so that ``watch`` has got no sample.
    """

    head: str
    position: int
    task: Task | None
    choice: TaskChoice | None
    has_classes: bool
    is_late: bool

    @property
    def threshold(self) -> float | None:
        """The value above which one value is class 1; None for other tasks."""
        return self.task.threshold if isinstance(self.task, ClassifyTask) else None

    @property
    def has_task_drop(self) -> bool:
        """Whether the task counts its decisions itself; classes are counted here."""
        return self.task is not None and not isinstance(self.task, ClassifyTask)


class EvaluationMeter:
    """Counts, sample by sample, what the reports say of each form of a model.

    Attributes:
        forms: The meter of each form, the reference first.
        reference: The meter of the reference.
        samples: Number of samples.
        labelled: Number of samples with class labels.
    """

    def __init__(
        self,
        forms: Sequence[str],
        outputs: Sequence[str],
        metric: Metric | None,
        task: TaskRequest,
        watch: Watch | None,
    ) -> None:
        """Take no sample yet.

        Args:
            forms: Names of the forms, the reference first.
            outputs: Names of the outputs, in order.
            metric: Metric of the drops; None for that of the task.
            task: The task that is asked for.
            watch: Gets each sample with the outputs of each form, once the task is known.
        """
        self.forms = {name: FormMeter(len(outputs)) for name in forms}
        self._reference = forms[0]
        self.reference = self.forms[forms[0]]
        self.samples = self.labelled = 0
        self._outputs, self._metric, self._request = outputs, metric, task
        # with labelled boxes or texts, the reference has figures of its own
        measured = forms if task.labels.task else forms[1:]
        self._tasks = TaskMeasurement(task, measured, watch)
        self._has_class_labels = task.name in (None, "classify")
        self._kept: list[Sample] = []
        self._are_scores = [True] * len(outputs)
        self._sizes: dict[str, int] = {}
        self._classes: set[int] = set()

    def add(self, sample: Sample, results: dict[str, list[NDArray[Any]]]) -> None:
        """Add one sample with the outputs of each form.

        Raises:
            DataError: A label is not a class of the model.
            UsageError: No output fits the task that is asked for.
        """
        expected = results[self._reference]
        labels = sample.labels if self._has_class_labels else ()
        self.samples += 1
        self.labelled += bool(labels)
        named = {form: dict(zip(self._outputs, results[form], strict=True)) for form in self.forms}
        sizes = {
            name: array.size for name, array in named[self._reference].items() if is_scores(array)
        }
        self._sizes |= sizes
        example = Example(sample.feed, named[self._reference], sample.name, sample.labels)
        states = find_states([example])
        flags = [name in sizes and name not in states for name in self._outputs]
        self._are_scores = [a and b for a, b in zip(self._are_scores, flags, strict=True)]
        if self._metric is None and labels:
            self._classes |= set(labels)
            require_class(max(labels), sizes, sample.name)
        for form, meter in self.forms.items():
            meter.add(expected, results[form], labels, sample.name)
            if self._metric is not None:
                meter.kept_outputs.append(named[form])
        if self._metric is not None:
            self._kept.append(sample)
            return
        self._tasks.add(example, named, labelled=bool(labels))

    def decide(self) -> Decider:
        """Choose what decides, once all samples are known; no sample follows.

        Raises:
            DataError: A label is neither 0 nor 1, and the task is one value for two classes.
            UsageError: No output fits the task that is asked for.
        """
        self._tasks.finish()
        task, choice = self._tasks.task, self._tasks.choice
        counts_classes = self._metric is None and self._has_class_labels
        if counts_classes and (task is None or has_threshold(task)):
            task, choice = self._settle_two_classes()
        if has_threshold(task):
            for meter in self.forms.values():
                meter.read_two_classes(self.reference, self._outputs.index(task.output), task)
        head = self._choose_head(task)
        if isinstance(task, ClassifyTask) and choice is not None and head != task.output:
            size = self._sizes[head]
            choice = replace(choice, output=head, why=describe_scores(head, size, size))
        has_classes = self._metric is not None or isinstance(task, ClassifyTask)
        late = has_threshold(task) and self._tasks.task is None
        return Decider(head, self._outputs.index(head), task, choice, has_classes, late)

    def _settle_two_classes(self) -> tuple[Task | None, TaskChoice]:
        """The task of one value, decided by all samples: two classes, or none."""
        values = {
            name: self.reference.list_single_values(k) for k, name in enumerate(self._outputs)
        }
        found = find_two_classes(values, self._classes, self._request)
        if found is None:
            return None, NO_TASK
        task, why = found
        return task, TaskChoice(task.name, task.output, why, asked=self._request.asked)

    def _choose_head(self, task: Task | None) -> str:
        """Name of the output that labels are compared with."""
        if task is not None and not isinstance(task, ClassifyTask):
            return task.output
        accuracies = [meter.result() for meter in self.reference.accuracy]
        head = find_class_output(self._outputs, self._are_scores, accuracies)
        if task is not None and (task.threshold is not None or head not in self._sizes):
            return task.output
        return head

    def measure_forms(self, by: Decider) -> dict[str, FormMetrics]:
        """The figures of each form, the reference first.

        Raises:
            DataError: The metric fails on a sample, or no sample has a label of the task.
            UsageError: The metric does not return numbers.
        """
        return {form: self._measure(form, by) for form in self.forms}

    def _measure(self, form: str, by: Decider) -> FormMetrics:
        meter = self.forms[form]
        accuracy = meter.accuracy[by.position]
        if meter is self.reference:
            fidelity, drop, figures = {}, None, self._measure_reference(by)
        else:
            results = [m.result(has_classes=by.has_classes) for m in meter.fidelity]
            fidelity = dict(zip(self._outputs, results, strict=True))
            drop, figures = self._measure_drop(form, by)
        return FormMetrics(
            accuracy.result(),
            fidelity,
            drop,
            figures,
            confusion=list_confusion(accuracy.confusion),
            by_class=list_classes(accuracy.confusion, accuracy.labelled),
        )

    def _measure_reference(self, by: Decider) -> tuple[Figure, ...]:
        """Figures of the reference by itself."""
        if by.has_task_drop and self._request.labels.task:
            return self._tasks.measure_form(self._reference)[1]
        if self._metric is not None and len(self.forms) == 1:
            return (measure_metric(self._metric, self.reference.kept_outputs, self._kept),)
        return ()

    def _measure_drop(self, form: str, by: Decider) -> tuple[Drop, tuple[Figure, ...]]:
        """The drop of a form against the reference, and further figures of the task."""
        meter, before = self.forms[form], self.reference
        if self._metric is not None:
            kept = before.kept_outputs, meter.kept_outputs
            return measure_metric_drop(self._metric, *kept, self._kept), ()
        if by.has_task_drop:
            return self._tasks.measure_form(form)
        return meter.measure_drop(before, by.position, has_classes=by.has_classes), ()
