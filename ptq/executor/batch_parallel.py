"""Parallel execution of a batch: segments of the program whose rows are independent, and pieces of the batch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from math import prod
from typing import Any

from numpy.typing import NDArray

from ptq.executor.layout import Tensor
from ptq.executor.program import Program
from ptq.executor.row_independence import Shape, are_rows_independent
from ptq.kernels.thread_pool import choose_worker_count

Feed = Mapping[str, NDArray[Any]]

# Least nanoseconds for one computed value on one thread: conversion and requantization.
_NANOSECONDS_PER_VALUE = 1.5

# Maximum rows of a piece. With fewer rows the fixed cost of a step counts (measured: 4 % of the processor time with 4
# rows, 9 % with 2). With more rows threads wait longer for the last one.
_MAX_PIECE_SIZE = 8


@dataclass(frozen=True)
class Segment:
    """Consecutive steps.

    Attributes:
        steps: Their positions in the program.
        batch_size: Rows of the batch; 0 if the steps must run on all rows at once.
        nanoseconds: Estimated time of the steps on one thread, rather too low.
        input_shapes: Shapes of the tensors that they read from other steps, by name.
        outputs: Names of the tensors that other steps read, and of the program's outputs.
    """

    steps: range
    batch_size: int = 0
    nanoseconds: float = 0.0
    input_shapes: Mapping[str, Shape] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()

    def is_valid_for(self, tensors: Mapping[str, Tensor]) -> bool:
        """Return whether the inputs have the learned shapes; values computed before may change them."""
        return all(tensors[name].shape == shape for name, shape in self.input_shapes.items())

    def split_batch(self) -> list[slice]:
        """Return the rows of each piece; no pieces if all rows should, or must, run at once."""
        number = choose_worker_count(self.nanoseconds)
        if number == 1 or self.batch_size < 2:
            return []
        count = min(-(-self.batch_size // (number * _MAX_PIECE_SIZE)) * number, self.batch_size)
        return [
            slice(*ends)
            for ends in pairwise(self.batch_size * i // count for i in range(count + 1))
        ]


class BatchSegments:
    """Segments of the program for feeds of given shapes; the shapes of tensors are learned from a run."""

    def __init__(self, program: Program, tables: Collection[str]) -> None:
        self._program, self._table_islands = program, tables
        self._segments: dict[tuple[Shape, ...], list[Segment]] = {}

    def find_segments(self, feed: Feed) -> list[Segment] | None:
        """Return the segments of the program; None if no run with a feed of these shapes was learned."""
        return self._segments.get(self._feed_shapes(feed))

    def learn_shapes(self, feed: Feed, shapes: Mapping[str, Shape]) -> None:
        """Learn the segments from a run.

        Args:
            feed: Arrays of the program's inputs by name.
            shapes: Shapes of all tensors that the steps computed.
        """
        all_shapes = {**shapes, **{name: array.shape for name, array in feed.items()}}
        leading = [all_shapes[name][:1] for name in self._program.inputs]
        rows = leading[0][0] if leading and leading[0] else 0
        if rows < 2:
            return
        steps = self._program.steps
        last = {name: i for i, step in enumerate(steps) for name in step.inputs}
        free = [
            are_rows_independent(step, self._program, self._table_islands, rows, all_shapes)
            for step in steps
        ]
        self._segments[self._feed_shapes(feed)] = [
            self._make_segment([*positions], rows if divided else 0, all_shapes, last)
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
