"""Task ``embed``: vectors that are compared with each other, as face, speaker and sentence encoders give them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ptq.evaluation import intervals
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
    measure_ratio,
)

MIN_VECTORS = 3
"""With two vectors, each is the other's nearest neighbour whatever they are."""
MIN_WIDTH = 16
_ROUNDING = 1e-6
"""Of a cosine of float32 vectors: eight times their epsilon."""
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
        before, after = np.concatenate(self.before), np.concatenate(self.after)
        if len(before) < MIN_VECTORS or before.shape != after.shape:
            share, (lo, hi) = measure_ratio(self._rows(), lambda sums: float(sums[0] / sums[1]))
            return Drop(COSINE_DISTANCE, 100 * share, 100 * lo, 100 * hi, len(self.before))
        changed = int(compare_neighbours(before, after).changed.sum())
        lo, hi = intervals.compute_clopper_pearson_interval(changed, len(before))
        share = changed / len(before)
        return Drop(
            NEIGHBOURS, 100 * share, 100 * lo, 100 * hi, len(before), lost=changed, gained=0
        )

    def measure_figures(self) -> tuple[Figure, ...]:
        """The mean cosine to float."""
        rows = self._rows()
        return tuple(Figure(r.name, *measure_ratio(rows, r.compute)) for r in self.task.ratios)

    def _rows(self) -> Counts:
        return np.array(
            [_sum_distances(*pair) for pair in zip(self.before, self.after, strict=True)]
        )


def find_neighbours(vectors: NDArray[np.float64]) -> NDArray[np.intp]:
    """Index of the nearest other vector by cosine, of each vector of length 1."""
    found = np.empty(len(vectors), np.intp)
    for start in range(0, len(vectors), 1024):
        block = vectors[start : start + 1024] @ vectors.T
        block[np.arange(len(block)), np.arange(start, start + len(block))] = -np.inf
        found[start : start + len(block)] = block.argmax(axis=1)
    return found


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The nearest other vectors of the vectors of two forms.

    Attributes:
        before: Index of the neighbour in the first form, of each vector.
        after: The same in the second form.
        changed: Whether the second form has another one, which is further away in the first form. Of copies in the
            data, each is as near as the other. Ties of the second form excuse nothing: constant vectors all tie.
    """

    before: NDArray[np.intp]
    after: NDArray[np.intp]
    changed: NDArray[np.bool_]


def compare_neighbours(before: NDArray[np.float64], after: NDArray[np.float64]) -> Neighbours:
    """The neighbours in two forms; vectors have length 1 and shape (rows, width)."""
    old, new = find_neighbours(before), find_neighbours(after)
    return Neighbours(old, new, (old != new) & ~_are_as_near(before, old, new))


def _are_as_near(
    vectors: NDArray[np.float64], best: NDArray[np.intp], other: NDArray[np.intp]
) -> NDArray[np.bool_]:
    """Whether the cosine of another neighbour equals that of the best one, but for rounding."""
    nearest, further = ((vectors * vectors[rows]).sum(axis=1) for rows in (best, other))
    return np.asarray(nearest - further <= _ROUNDING, bool)


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
