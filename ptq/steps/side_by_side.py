"""Which batches are run in pieces side by side, and in how many?"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import pairwise
from math import prod
from typing import Any

from numpy.typing import NDArray

from ptq.kernels.workers import crew
from ptq.steps.program import Program
from ptq.steps.rows_apart import Shape, rows_apart

Feed = Mapping[str, NDArray[Any]]

# Nanoseconds that a value computed takes one thread at the least: conversion and finish.
_EACH = 1.5

# Rows of a piece: with fewer the steps' overhead counts, with more the values between steps leave the cache.
_ROWS = 4


class Divisions:
    """What is known of a program's rows; it learns from runs on whole batches."""

    def __init__(self, program: Program, tables: Collection[str]) -> None:
        """The steps, and the names of those islands that map one value to one value."""
        self._program, self._tables = program, tables
        self._values: dict[tuple[Shape, ...], int] = {}

    def learn(self, feed: Feed, shapes: Mapping[str, Shape]) -> None:
        """Take the shapes of every tensor that the steps gave in a run on the feed."""
        rows, kind = _rows(self._program, feed), _kind(self._program, feed)
        if not rows or kind in self._values:
            return
        values = sum(prod(shape) for shape in shapes.values())
        known = {**shapes, **{name: array.shape for name, array in feed.items()}}
        apart = rows_apart(self._program, self._tables, known)
        self._values[kind] = values // rows if apart else 0

    def pieces(self, feed: Feed) -> list[Feed]:
        """The feed's rows in pieces for all threads; none where it is better, or must be, run at once."""
        rows = _rows(self._program, feed)
        values = self._values.get(_kind(self._program, feed), 0)
        number = crew(rows * values * _EACH)
        if rows < 2 or not values or number == 1:
            return []
        count = min(-(-rows // (number * _ROWS)) * number, rows)
        edges = [rows * i // count for i in range(count + 1)]
        names = self._program.inputs
        return [{n: feed[n][start:stop] for n in names} for start, stop in pairwise(edges)]


def _rows(program: Program, feed: Feed) -> int:
    """The size of the leading axis that all inputs have; 0 where they have none in common."""
    sizes = {feed[name].shape[:1] for name in program.inputs}
    return sizes.pop()[0] if len(sizes) == 1 and () not in sizes else 0


def _kind(program: Program, feed: Feed) -> tuple[Shape, ...]:
    """What a run's shapes depend on, but for the number of rows."""
    return tuple(feed[name].shape[1:] for name in program.inputs)
