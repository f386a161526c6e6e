"""Forms of one model on the same samples → task, drops and figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ptq.evaluation.drop import Drop, TaskChoice
from ptq.evaluation.metrics import Figure
from ptq.evaluation.tasks.classify import ClassifyTask
from ptq.evaluation.tasks.common_scores import CommonScores
from ptq.evaluation.tasks.detect import ENOUGH_BOXES, count_shown_boxes
from ptq.evaluation.tasks.request import TaskRequest, recognize_task
from ptq.evaluation.tasks.segment import SegmentTask
from ptq.evaluation.tasks.task import EXAMPLES, Arrays, Example, Task, TaskMeter

MIN_COMMON = 0.9
"""Share of decisions for one class from which on outputs may be numbers, of which the same one is the largest."""

Watch = Callable[[Task, Example, Mapping[str, Arrays]], None]
"""Gets the task, a sample with the float model's outputs, and the outputs of each form."""


_MAX_WAITING = 2**28
"""Bytes of samples and outputs that wait for enough labelled boxes."""


class TaskMeasurement:
    """Recognizes the task on the first samples, and measures each form on all of them.

    With labelled boxes, more samples are waited for, until they show how the model numbers classes.

    Attributes:
        task: The task; None until it is recognized, and if there is none.
        choice: The task in words; None until it is recognized.
    """

    def __init__(self, request: TaskRequest, forms: Sequence[str], watch: Watch | None) -> None:
        """``forms`` are the names of the forms that are compared with float; ``watch`` is called on each sample."""
        self._watch = watch
        self.task: Task | None = None
        self.choice: TaskChoice | None = None
        self._request, self._forms = request, forms
        self._waiting: list[tuple[Example, Mapping[str, Arrays], bool]] = []
        self._meters: dict[str, TaskMeter] = {}
        self._boxes, self._bytes = 0, 0
        self._decided, self._common = Counter[int](), CommonScores()

    def add(self, example: Example, others: Mapping[str, Arrays], *, labelled: bool) -> None:
        """Add a sample.

        Args:
            example: Its inputs and the float model's outputs.
            others: The outputs of each form.
            labelled: Whether the sample has class labels.

        Raises:
            UsageError: No output fits the task that is asked for.
        """
        self._waiting.append((example, others, labelled))
        if self.choice is not None or self._know_enough(example, others):
            self._measure()

    def finish(self) -> None:
        """Measure what was added last; no sample follows.

        Raises:
            UsageError: No output fits the task that is asked for.
        """
        if self._waiting:
            self._measure()
        if self.choice is not None and self.choice.assumed:
            commonest = max(self._decided.values(), default=0)
            rarely_varies = commonest >= MIN_COMMON * self._decided.total()
            common = self._common.measure_share()
            self.choice = replace(self.choice, assumed=rarely_varies, common=common)

    def measure_form(self, form: str) -> tuple[Drop, tuple[Figure, ...]]:
        """The drop and the figures of a form; there must be a task."""
        meter = self._meters[form]
        return meter.measure_drop(), meter.measure_figures()

    def _know_enough(self, example: Example, others: Mapping[str, Arrays]) -> bool:
        """Whether the samples that wait show the task, this one included."""
        if self._request.labels.boxes.images:
            arrays = [a for one in (example.feed, *others.values()) for a in one.values()]
            self._bytes += sum(array.nbytes for array in arrays)
            self._boxes += count_shown_boxes(example, self._request)
            if self._boxes < ENOUGH_BOXES and self._bytes < _MAX_WAITING:
                return False
        return len(self._waiting) >= EXAMPLES

    def _measure(self) -> None:
        if self.choice is None:
            examples = [example for example, _, _ in self._waiting]
            labelled = any(labelled for _, _, labelled in self._waiting)
            self.task, self.choice = recognize_task(self._request, examples, labelled=labelled)
            if self.task is not None:
                self._meters = {form: self.task.start() for form in self._forms}
        for example, others, _ in self._waiting:
            for form, meter in self._meters.items():
                meter.add(example, others[form])
            if self._watch is not None and self.task is not None:
                self._watch(self.task, example, others)
            if self.choice.assumed and isinstance(self.task, ClassifyTask | SegmentTask):
                decided = self.task.decode(example.outputs[self.task.output])
                if isinstance(self.task, ClassifyTask):
                    self._common.add(example.outputs[self.task.output])
                classes, counts = np.unique(decided, return_counts=True)
                self._decided.update(dict(zip(classes.tolist(), counts.tolist(), strict=True)))
        self._waiting.clear()
