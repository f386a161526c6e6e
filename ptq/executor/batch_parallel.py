"""Which stretches of a program are run on pieces of a batch side by side, and on which pieces?"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from math import prod
from typing import Any

from numpy.typing import NDArray

from ptq.executor.layout import Tensor
from ptq.executor.program import Program
from ptq.executor.row_independence import Shape, rows_are_independent
from ptq.kernels.thread_pool import worker_count

Feed = Mapping[str, NDArray[Any]]

# Nanoseconds that a value computed takes one thread at the least: conversion and requantize.
_NANOSECONDS_PER_VALUE = 1.5

# Most rows of a piece: with fewer, what a step costs by itself counts (measured: 4 % of the processor time with 4,
# 9 % with 2); with more, threads wait longer for the one that is late.
_MAX_PIECE_SIZE = 8


@dataclass(frozen=True)
class Segment:
    """Consecutive steps.

    Attributes:
        steps: Their positions.
        rows: Of the batch; 0 where they must be run on all at once.
        work: A guess at the nanoseconds they take one thread, rather too few.
        arriving: What they read of others, and its shape.
        leaving: Names of what others read of them, and of the program's outputs.
    """

    steps: range
    batch_size: int = 0
    nanoseconds: float = 0.0
    input_shapes: Mapping[str, Shape] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()

    def is_valid_for(self, tensors: Mapping[str, Tensor]) -> bool:
        """Whether what arrives has the shapes that are known; values before the stretch may decide them."""
        return all(tensors[name].shape == shape for name, shape in self.input_shapes.items())

    def split_batch(self) -> list[slice]:
        """The rows for all threads; none where it is better, or must be, that they are run at once."""
        number = worker_count(self.nanoseconds)
        if number == 1 or self.batch_size < 2:
            return []
        count = min(-(-self.batch_size // (number * _MAX_PIECE_SIZE)) * number, self.batch_size)
        return [
            slice(*ends)
            for ends in pairwise(self.batch_size * i // count for i in range(count + 1))
        ]


class BatchSegments:
    """How batches of known shapes are divided; it learns from runs at once."""

    def __init__(self, program: Program, tables: Collection[str]) -> None:
        """The steps, and the names of those islands that map one value to one value."""
        self._program, self._table_islands = program, tables
        self._segments: dict[tuple[Shape, ...], list[Segment]] = {}

    def find_segments(self, feed: Feed) -> list[Segment] | None:
        """The whole program in stretches; None where nothing was learned of feeds of these shapes."""
        return self._segments.get(self._feed_shapes(feed))

    def learn_shapes(self, feed: Feed, shapes: Mapping[str, Shape]) -> None:
        """Take the shapes of every tensor that the steps gave in a run on the feed."""
        known = {**shapes, **{name: array.shape for name, array in feed.items()}}
        leading = [known[name][:1] for name in self._program.inputs]
        rows = leading[0][0] if leading and leading[0] else 0
        if rows < 2:
            return
        steps = self._program.steps
        last = {name: i for i, step in enumerate(steps) for name in step.inputs}
        free = [
            rows_are_independent(step, self._program, self._table_islands, rows, known)
            for step in steps
        ]
        self._segments[self._feed_shapes(feed)] = [
            self._make_segment([*positions], rows if divided else 0, known, last)
            for divided, positions in groupby(range(len(steps)), free.__getitem__)
        ]

    def _make_segment(
        self,
        positions: Sequence[int],
        rows: int,
        shapes: Mapping[str, Shape],
        last: Mapping[str | None, int],
    ) -> Segment:
        steps, program = range(positions[0], positions[-1] + 1), self._program
        made = [name for i in steps for name in program.steps[i].outputs]
        read = {name for i in steps for name in program.steps[i].inputs if name is not None}
        return Segment(
            steps,
            rows,
            sum(prod(shapes[name]) for name in made) * _NANOSECONDS_PER_VALUE,
            {name: shapes[name] for name in sorted(read - {*made} - program.constants.keys())},
            tuple(n for n in made if last.get(n, 0) >= steps.stop or n in program.outputs),
        )

    def _feed_shapes(self, feed: Feed) -> tuple[Shape, ...]:
        return tuple(feed[name].shape for name in self._program.inputs)
