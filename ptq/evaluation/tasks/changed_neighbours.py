"""Samples whose nearest neighbour another form changes, with both neighbours and small pictures."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ptq.data.formats.thumbnail import draw_thumbnail
from ptq.data.preparation import Preparation
from ptq.evaluation.answers import Answer, ChangedSample
from ptq.evaluation.tasks.embed import NO_NEIGHBOUR, EmbedTask, Neighbours, compare_neighbours
from ptq.evaluation.tasks.task import Arrays, Example

MAX_PICTURES = 1000
"""Samples whose small pictures are kept, since any of them may be a neighbour: at most about 10 MB."""


class ChangedNeighbours:
    """Collects the vectors of all samples, because neighbours are found among all of them."""

    def __init__(self, task: EmbedTask, preparation: Preparation | None) -> None:
        """``preparation`` says how files became arrays."""
        self._task, self._preparation = task, preparation
        self._before: list[NDArray[np.float64]] = []
        self._after: list[NDArray[np.float64]] = []
        self._samples: list[tuple[str, tuple[int, ...], bytes]] = []

    def add(self, example: Example, other: Arrays) -> None:
        """Add one sample with the outputs of the other form."""
        self._before.append(self._task.decode(example.outputs, example.feed))
        self._after.append(self._task.decode(other, example.feed))
        many = len(self._samples) >= MAX_PICTURES
        picture = b"" if many else draw_thumbnail(example.feed, self._preparation)
        self._samples.append((example.name, example.labels, picture))

    @cached_property
    def _neighbours(self) -> Neighbours | None:
        return compare_neighbours(self._before, self._after)

    @cached_property
    def _changed(self) -> NDArray[np.int64]:
        """Number of vectors with another neighbour, of each sample."""
        found = self._neighbours
        if found is None:
            return np.zeros(0, np.int64)
        return found.count_by_sample(len(self._samples))[:, 0].astype(np.int64)

    @property
    def count(self) -> int:
        """Number of samples with another neighbour, once all were added."""
        return int(np.count_nonzero(self._changed))

    def result(self, most: int) -> tuple[ChangedSample, ...]:
        """The samples with the most other neighbours, the first ones of equal number, once all were added."""
        order = np.argsort(-self._changed, kind="stable")[: min(most, self.count)]
        return tuple(self._describe(index) for index in order.tolist())

    def _describe(self, index: int) -> ChangedSample:
        """A sample with the neighbours of the first of its vectors that has another one."""
        found = self._neighbours
        assert found is not None
        row = np.flatnonzero(found.changed & (found.sample == index))[0]
        (before, one), (after, two) = (
            self._show(found, int(form[row])) for form in (found.before, found.after)
        )
        name, labels, picture = self._samples[index]
        changed = int(self._changed[index])
        return ChangedSample(name, labels, changed, before, after, picture, one, two)

    def _show(self, found: Neighbours, row: int) -> tuple[Answer, bytes]:
        """The sample of a vector as an answer, and its picture."""
        if row == NO_NEIGHBOUR:
            return Answer(), b""
        name, _, picture = self._samples[int(found.sample[row])]
        return Answer((name,)), picture
