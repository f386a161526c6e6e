"""Task ``embed``: vectors that are compared with each other, as face, speaker and sentence encoders give them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ptq.evaluation.drop import Drop
from ptq.evaluation.metrics import Figure
from ptq.evaluation.tasks.sequence import find_positions
from ptq.evaluation.tasks.task import (
    Arrays,
    Counts,
    Example,
    Found,
    Ratio,
    TaskMeter,
    TaskRequest,
    is_distribution,
    measure_decisions,
    measure_ratio,
)

MIN_VECTORS = 3
"""With two vectors, each is the other's nearest neighbour whatever they are."""
MIN_WIDTH = 16
_ROUNDING = 1e-6
"""Of a cosine of float32 vectors: eight times their epsilon."""
_EQUAL = 1e-12
"""Cosines to equal vectors round by less, summed in another order."""
_BLOCK = 1024
"""Vectors whose cosines are in memory at once."""
NO_NEIGHBOUR = -1
_VECTORS = re.compile(r"embed|pool|feature|sentence|hidden|vector|representation", re.IGNORECASE)
COSINE_DISTANCE = "cosine distance to float"
NEIGHBOURS = "agreement of nearest neighbours"


@dataclass(frozen=True)
class EmbedTask:
    """Gives one vector for each row; vectors of positions are averaged over those that are not padding.

    Attributes:
        output: Name of the output, shape (rows, width) or (rows, positions, width).
    """

    output: str
    name: Literal["embed"] = "embed"
    metric: str = NEIGHBOURS
    ratios: Sequence[Ratio] = (Ratio("cosine to float", lambda sums: 1 - sums[0] / sums[1]),)

    def decode(self, outputs: Arrays, feed: Arrays) -> NDArray[np.float64]:
        """The vectors of length 1, shape (rows, width)."""
        values = np.asarray(outputs[self.output], np.float64)
        if values.ndim == 3:
            used = find_positions(feed, values.shape[:2])[..., None]
            values = (values * used).sum(axis=1) / np.maximum(used.sum(axis=1), 1)
        rows = values.reshape(-1, values.shape[-1])
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows / np.where(lengths > 0, lengths, 1.0)

    def compare(self, reference: Arrays, other: Arrays, feed: Arrays) -> Counts:
        """The distance 1 − cosine of one sample, and the number of its vectors."""
        before, after = self.decode(reference, feed), self.decode(other, feed)
        return _sum_distances(before, after)

    def start(self) -> TaskMeter:
        """A meter without samples."""
        return EmbedMeter(self)


@dataclass
class EmbedMeter:
    """Keeps the vectors of all samples, because neighbours are found among all of them."""

    task: EmbedTask
    before: list[NDArray[np.float64]] = field(default_factory=list)
    after: list[NDArray[np.float64]] = field(default_factory=list)

    def add(self, example: Example, other: Arrays) -> None:
        """Add one sample."""
        self.before.append(self.task.decode(example.outputs, example.feed))
        self.after.append(self.task.decode(other, example.feed))

    def measure_drop(self) -> Drop:
        """Vectors with another nearest neighbour than in float; with too few vectors, the distance to float."""
        found = compare_neighbours(self.before, self.after)
        if found is None:
            share, (lo, hi) = measure_ratio(self._rows(), lambda sums: float(sums[0] / sums[1]))
            return Drop(COSINE_DISTANCE, 100 * share, 100 * lo, 100 * hi, len(self.before))
        return measure_decisions(NEIGHBOURS, found.count_by_sample(len(self.before)))

    def measure_figures(self) -> tuple[Figure, ...]:
        """The mean cosine to float."""
        rows = self._rows()
        return tuple(Figure(r.name, *measure_ratio(rows, r.compute)) for r in self.task.ratios)

    def _rows(self) -> Counts:
        return np.array(
            [_sum_distances(*pair) for pair in zip(self.before, self.after, strict=True)]
        )


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The nearest other vectors of the vectors of two forms, over all samples.

    Attributes:
        before: Index of the neighbour in the first form, of each vector; `NO_NEIGHBOUR` if its cosines are NaN.
        after: The same in the second form; of equally near ones, the one that is furthest away in the first form.
        changed: Whether the second form has another one, which is further away in the first form. Of copies in the
            data, each is as near as the other. Ties of the second form excuse nothing: constant vectors all tie.
        sample: Index of the sample of each vector.
    """

    before: NDArray[np.intp]
    after: NDArray[np.intp]
    changed: NDArray[np.bool_]
    sample: NDArray[np.intp]

    def count_by_sample(self, samples: int) -> Counts:
        """Changed vectors and vectors of each sample, shape (samples, 2)."""
        both = (
            np.bincount(at, minlength=samples) for at in (self.sample[self.changed], self.sample)
        )
        return np.stack(list(both), axis=1).astype(np.float64)


def compare_neighbours(
    before: Sequence[NDArray[np.float64]], after: Sequence[NDArray[np.float64]]
) -> Neighbours | None:
    """The neighbours in two forms; None for fewer vectors than `MIN_VECTORS`, or for other shapes in the second form.

    Args:
        before: The vectors of each sample in the first form, of length 1, shape (rows, width).
        after: The same in the second form.
    """
    if any(one.shape != other.shape for one, other in zip(before, after, strict=True)):
        return None
    first, second = np.concatenate(before), np.concatenate(after)
    if len(first) < MIN_VECTORS:
        return None
    parts = [_compare_block(first, second, start) for start in range(0, len(first), _BLOCK)]
    sample = np.repeat(np.arange(len(before)), [len(rows) for rows in before])
    old, new, changed = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return Neighbours(old, new, changed, sample)


def _compare_block(
    first: NDArray[np.float64], second: NDArray[np.float64], start: int
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.bool_]]:
    """The attributes of `Neighbours` of a block of vectors."""
    old, new = (_compute_cosines(vectors, start) for vectors in (first, second))
    rows, best, chosen = np.arange(len(old)), old.argmax(axis=1), new.argmax(axis=1)
    nearest, nearest_after = old[rows, best], new[rows, chosen]
    ties = new >= nearest_after[:, None] - _EQUAL
    several = np.flatnonzero(np.count_nonzero(ties, axis=1) > 1)
    chosen[several] = np.where(ties[several], old[several], np.inf).argmin(axis=1)
    reached = old[rows, chosen]
    before = np.where(nearest == -np.inf, NO_NEIGHBOUR, best)
    after = np.where(nearest_after == -np.inf, NO_NEIGHBOUR, chosen)
    one_alone = (before == NO_NEIGHBOUR) != (after == NO_NEIGHBOUR)
    return before, after, one_alone | (reached < nearest - _ROUNDING)


def _compute_cosines(vectors: NDArray[np.float64], start: int) -> NDArray[np.float64]:
    """The cosines of a block of vectors to all; −∞ to itself and for NaN."""
    block = vectors[start : start + _BLOCK] @ vectors.T
    block[np.arange(len(block)), np.arange(start, start + len(block))] = -np.inf
    block[np.isnan(block)] = -np.inf
    return block


def _sum_distances(before: NDArray[Any], after: NDArray[Any]) -> Counts:
    if before.shape != after.shape:
        return np.array([len(before), len(before)], np.float64)
    cosines = np.nan_to_num((before * after).sum(axis=1))
    same = (before == after).all(axis=1)  # two vectors of zeros are equal
    return np.array([np.where(same, 0.0, 1 - cosines).sum(), len(before)], np.float64)


def find_vectors(examples: Sequence[Example], request: TaskRequest) -> Found | None:
    """A vector by the name of its output, or because all have length 1; vectors of whole samples come first."""
    outputs = examples[0].outputs
    for name in sorted(outputs, key=lambda name: outputs[name].ndim):
        arrays = [np.asarray(example.outputs[name]) for example in examples]
        one = arrays[0]
        if one.ndim not in (2, 3) or one.dtype.kind != "f" or one.shape[-1] < MIN_WIDTH:
            continue
        named = _VECTORS.search(name) is not None and not is_distribution(one)
        lengths = np.concatenate([np.linalg.norm(a, axis=-1).reshape(-1) for a in arrays])
        unit = one.ndim == 2 and one.min() < 0 and bool(np.allclose(lengths, 1, atol=1e-3))
        if request.asked or named or unit:
            why = "have length 1" if unit else "are named so" if named else "are taken as asked"
            return EmbedTask(
                name
            ), f"output {name} gives vectors of width {one.shape[-1]}, which {why}"
    return None
