"""Samples whose answer another form changes: a bounded number of them, with both answers and a small picture."""

from __future__ import annotations

from collections.abc import Mapping

from ptq.data.preparation import Preparation
from ptq.data.thumbnail import draw_thumbnail
from ptq.evaluation.answers import ChangedSample
from ptq.evaluation.tasks.read_answer import read_answer
from ptq.evaluation.tasks.task import Arrays, Example, Task

MOST_KEPT = 24
"""Changed samples of a report: those with the most changed decisions, the first ones of equal number."""


class ChangedSamples:
    """Collects the samples whose answer one form changes."""

    def __init__(
        self, form: str, preparation: Preparation | None, metadata: Mapping[str, str]
    ) -> None:
        """``form`` is compared with the reference; ``metadata`` of the model may name its classes."""
        self.form = form
        self.count = 0
        self._preparation, self._metadata = preparation, metadata
        self._kept: list[tuple[int, int, ChangedSample]] = []

    def add(self, task: Task, example: Example, others: Mapping[str, Arrays]) -> None:
        """Add one sample with the outputs of each form."""
        other = others[self.form]
        changed = int(task.compare(example.outputs, other, example.feed)[0])
        if not changed:
            return
        self.count += 1
        if len(self._kept) == MOST_KEPT and self._kept[-1][0] <= -changed:
            return
        before = read_answer(task, example.outputs, example.feed, self._metadata)
        after = read_answer(task, other, example.feed, self._metadata)
        if before is None or after is None:
            return
        picture = draw_thumbnail(example.feed, self._preparation)
        sample = ChangedSample(example.name, example.labels, changed, before, after, picture)
        self._kept = sorted([*self._kept, (-changed, self.count, sample)], key=lambda k: k[:2])
        del self._kept[MOST_KEPT:]

    def result(self) -> tuple[ChangedSample, ...]:
        """The samples that were kept, the most changed first."""
        return tuple(sample for _, _, sample in self._kept)
