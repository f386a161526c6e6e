"""Samples whose nearest neighbour another form changes, with both neighbours and small pictures."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ptq.data.formats.thumbnail import draw_thumbnail
from ptq.data.preparation import Preparation
from ptq.evaluation.answers import Answer, ChangedSample
from ptq.evaluation.tasks.embed import MIN_VECTORS, EmbedTask, Neighbours, compare_neighbours
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
        """Add one sample with the outputs of the other form. Its first row stands for it."""
        self._before.append(self._task.decode(example.outputs, example.feed)[:1])
        self._after.append(self._task.decode(other, example.feed)[:1])
        many = len(self._samples) >= MAX_PICTURES
        picture = b"" if many else draw_thumbnail(example.feed, self._preparation)
        self._samples.append((example.name, example.labels, picture))

    @cached_property
    def _neighbours(self) -> Neighbours | None:
        before, after = np.concatenate(self._before), np.concatenate(self._after)
        if len(before) < MIN_VECTORS or before.shape != after.shape:
            return None
        return compare_neighbours(before, after)

    @property
    def count(self) -> int:
        """Number of samples with another neighbour, once all were added."""
        return 0 if self._neighbours is None else int(self._neighbours.changed.sum())

    def result(self, most: int) -> tuple[ChangedSample, ...]:
        """The first ones of the samples with another neighbour, once all were added."""
        found = self._neighbours
        if found is None:
            return ()
        rows = np.flatnonzero(found.changed)[:most].tolist()
        return tuple(self._describe(k, int(found.before[k]), int(found.after[k])) for k in rows)

    def _describe(self, index: int, reference: int, other: int) -> ChangedSample:
        name, labels, picture = self._samples[index]
        (before, _, one), (after, _, two) = self._samples[reference], self._samples[other]
        return ChangedSample(
            name, labels, 1, Answer((before,)), Answer((after,)), picture, one, two
        )
