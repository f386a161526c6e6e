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
from ptq.executor.row_independence import Shape, apart
from ptq.kernels.thread_pool import crew

Feed = Mapping[str, NDArray[Any]]

# Nanoseconds that a value computed takes one thread at the least: conversion and finish.
_EACH = 1.5

# Most rows of a piece: with fewer, what a step costs by itself counts (measured: 4 % of the processor time with 4,
# 9 % with 2); with more, threads wait longer for the one that is late.
_ROWS = 8


@dataclass(frozen=True)
class Stretch:
    """Consecutive steps.

    Attributes:
        steps: Their positions.
        rows: Of the batch; 0 where they must be run on all at once.
        work: A guess at the nanoseconds they take one thread, rather too few.
        arriving: What they read of others, and its shape.
        leaving: Names of what others read of them, and of the program's outputs.
    """

    steps: range
    rows: int = 0
    work: float = 0.0
    arriving: Mapping[str, Shape] = field(default_factory=dict)
    leaving: tuple[str, ...] = ()

    def fits(self, tensors: Mapping[str, Tensor]) -> bool:
        """Whether what arrives has the shapes that are known; values before the stretch may decide them."""
        return all(tensors[name].shape == shape for name, shape in self.arriving.items())

    def pieces(self) -> list[slice]:
        """The rows for all threads; none where it is better, or must be, that they are run at once."""
        number = crew(self.work)
        if number == 1 or self.rows < 2:
            return []
        count = min(-(-self.rows // (number * _ROWS)) * number, self.rows)
        return [slice(*ends) for ends in pairwise(self.rows * i // count for i in range(count + 1))]


class Divisions:
    """How batches of known shapes are divided; it learns from runs at once."""

    def __init__(self, program: Program, tables: Collection[str]) -> None:
        """The steps, and the names of those islands that map one value to one value."""
        self._program, self._tables = program, tables
        self._known: dict[tuple[Shape, ...], list[Stretch]] = {}

    def known(self, feed: Feed) -> list[Stretch] | None:
        """The whole program in stretches; None where nothing was learned of feeds of these shapes."""
        return self._known.get(self._kind(feed))

    def learn(self, feed: Feed, shapes: Mapping[str, Shape]) -> None:
        """Take the shapes of every tensor that the steps gave in a run on the feed."""
        known = {**shapes, **{name: array.shape for name, array in feed.items()}}
        leading = [known[name][:1] for name in self._program.inputs]
        rows = leading[0][0] if leading and leading[0] else 0
        if rows < 2:
            return
        steps = self._program.steps
        last = {name: i for i, step in enumerate(steps) for name in step.inputs}
        free = [apart(step, self._program, self._tables, rows, known) for step in steps]
        self._known[self._kind(feed)] = [
            self._stretch([*positions], rows if divided else 0, known, last)
            for divided, positions in groupby(range(len(steps)), free.__getitem__)
        ]

    def _stretch(
        self,
        positions: Sequence[int],
        rows: int,
        shapes: Mapping[str, Shape],
        last: Mapping[str | None, int],
    ) -> Stretch:
        steps, program = range(positions[0], positions[-1] + 1), self._program
        made = [name for i in steps for name in program.steps[i].outputs]
        read = {name for i in steps for name in program.steps[i].inputs if name is not None}
        return Stretch(
            steps,
            rows,
            sum(prod(shapes[name]) for name in made) * _EACH,
            {name: shapes[name] for name in sorted(read - {*made} - program.constants.keys())},
            tuple(n for n in made if last.get(n, 0) >= steps.stop or n in program.outputs),
        )

    def _kind(self, feed: Feed) -> tuple[Shape, ...]:
        return tuple(feed[name].shape for name in self._program.inputs)
