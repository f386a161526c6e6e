"""Samples whose answer another form changes: a bounded number of them, with both answers and a small picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ptq.data.formats.thumbnail import draw_thumbnail
from ptq.data.preparation import Preparation
from ptq.evaluation.answers import ChangedSample
from ptq.evaluation.tasks.changed_neighbours import ChangedNeighbours
from ptq.evaluation.tasks.classify import ClassifyTask, list_candidates
from ptq.evaluation.tasks.embed import EmbedTask
from ptq.evaluation.tasks.mask_pictures import draw_masks
from ptq.evaluation.tasks.read_answer import read_answer
from ptq.evaluation.tasks.segment import SegmentTask
from ptq.evaluation.tasks.task import Arrays, Example, Task

MAX_KEPT = 24
"""Changed samples of a report: those with the most changed decisions, the first ones of equal number."""


@dataclass
class _Found:
    """Changed samples by the decisions of one output: their number, and those that are kept in order."""

    count: int = 0
    kept: list[tuple[int, int, ChangedSample]] = field(default_factory=list)


class ChangedSamples:
    """Collects the samples whose answer one form changes."""

    def __init__(
        self, form: str, preparation: Preparation | None, metadata: Mapping[str, str]
    ) -> None:
        """``form`` is compared with the reference; ``metadata`` of the model may name its classes."""
        self.form = form
        self._found: dict[tuple[str, float | None], _Found] = {}
        self._head: tuple[str, float | None] | None = None
        self._neighbours: ChangedNeighbours | None = None
        self._preparation, self._metadata = preparation, metadata

    def choose(self, output: str, threshold: float | None = None) -> None:
        """Choose the output that decides, once all samples were added; by default it is the first one.

        Args:
            output: Its name.
            threshold: The value above which one value is class 1; None for other tasks.
        """
        self._head = output, threshold

    @property
    def _chosen(self) -> _Found:
        first = next(iter(self._found.values()), _Found())
        return self._found.get(self._head, _Found()) if self._head else first

    @property
    def count(self) -> int:
        """Number of changed samples."""
        return self._chosen.count if self._neighbours is None else self._neighbours.count

    def add(self, task: Task, example: Example, others: Mapping[str, Arrays]) -> None:
        """Add one sample with the outputs of each form."""
        other = others[self.form]
        if isinstance(task, EmbedTask):
            self._neighbours = self._neighbours or ChangedNeighbours(task, self._preparation)
            self._neighbours.add(example, other)
            return
        for one in list_candidates(task, example):
            self._add(one, example, other)

    def _add(self, task: Task, example: Example, other: Arrays) -> None:
        threshold = task.threshold if isinstance(task, ClassifyTask) else None
        found = self._found.setdefault((task.output, threshold), _Found())
        changed = int(task.compare(example.outputs, other, example.feed)[0])
        if not changed:
            return
        found.count += 1
        if len(found.kept) == MAX_KEPT and found.kept[-1][0] <= -changed:
            return
        before = read_answer(task, example.outputs, example.feed, self._metadata)
        after = read_answer(task, other, example.feed, self._metadata)
        if before is None or after is None:
            return
        picture = draw_thumbnail(example.feed, self._preparation)
        masks = (b"", b"")
        if isinstance(task, SegmentTask):
            masks = draw_masks(task, example.outputs, other)
        sample = ChangedSample(
            example.name,
            example.labels,
            changed,
            before,
            after,
            picture,
            *masks,
            overlaid=any(masks),
        )
        found.kept = sorted([*found.kept, (-changed, found.count, sample)], key=lambda k: k[:2])
        del found.kept[MAX_KEPT:]

    def result(self) -> tuple[ChangedSample, ...]:
        """The samples that were kept, the most changed first."""
        if self._neighbours is not None:
            return self._neighbours.result(MAX_KEPT)
        return tuple(sample for _, _, sample in self._chosen.kept)
