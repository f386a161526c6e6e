"""Task ``ctc``: text read greedily from scores over time, as text and speech recognizers give them.

The best class of each step is taken, repeats are merged, and blanks are left out (Graves et al., ICML 2006).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ptq.evaluation.tasks.task import (
    Arrays,
    Counts,
    CountsMeter,
    Example,
    Found,
    Ratio,
    TaskMeter,
    TaskRequest,
    is_distribution,
    share_of,
)

MIN_BLANKS = 0.3
"""Share of steps at which the blank is the best class; lines of text have 0.5 to 0.9."""
MIN_CLASSES = 8
"""Digits, a sign and the blank."""
MAX_STEPS = 3000


@dataclass(frozen=True)
class CtcTask:
    """Reads one line of text for each row of scores.

    Attributes:
        output: Name of the output, shape (rows, steps, classes) or (steps, rows, classes).
        blank: Index of the blank.
        steps_first: Whether the first axis is time.
    """

    output: str
    blank: int
    steps_first: bool = False
    name: Literal["ctc"] = "ctc"
    metric: str = "agreement of decoded sequences"
    ratios: Sequence[Ratio] = (
        Ratio("character error rate", lambda sums: share_of(sums[2], sums[3])),
    )

    def decode(self, scores: NDArray[Any]) -> list[tuple[int, ...]]:
        """The classes read from the scores, one line for each row."""
        best = order_rows(scores, steps_first=self.steps_first).argmax(axis=-1)
        merged = ([int(label) for label, _ in groupby(row)] for row in best)
        return [tuple(label for label in row if label != self.blank) for row in merged]

    def compare(self, reference: Arrays, other: Arrays, feed: Arrays) -> Counts:
        """Lines that differ, lines, wrong characters, characters."""
        del feed
        before = self.decode(reference[self.output])
        after = self.decode(other[self.output])
        after += [()] * (len(before) - len(after))
        return np.array(
            [
                sum(one != two for one, two in zip(before, after, strict=False)),
                len(before),
                sum(edit_distance(one, two) for one, two in zip(before, after, strict=False)),
                sum(map(len, before)),
            ],
            np.float64,
        )

    def start(self) -> TaskMeter:
        """A meter without samples."""
        return CountsMeter(self)


def order_rows(scores: NDArray[Any], *, steps_first: bool) -> NDArray[Any]:
    """Scores with the axes rows, steps, classes."""
    whole = scores.reshape((1, *scores.shape)) if scores.ndim == 2 else scores
    return whole.swapaxes(0, 1) if steps_first and scores.ndim == 3 else whole


def edit_distance(one: Sequence[int], other: Sequence[int]) -> int:
    """Levenshtein's distance: insertions, deletions and replacements that turn one sequence into the other."""
    row = np.arange(len(other) + 1)
    target = np.asarray(other, np.int64)
    for count, item in enumerate(one, 1):
        best = np.minimum(row[1:] + 1, row[:-1] + (target != item))
        # insertions: the least of best[j] + (i − j) over all j ≤ i
        best = np.concatenate([[count], best]) - np.arange(len(row))
        row = np.minimum.accumulate(best) + np.arange(len(row))
    return int(row[-1])


def find_text(examples: Sequence[Example], request: TaskRequest) -> Found | None:
    """Scores over time of which the first or last class is the blank.

    The blank is the most frequent best class. If the task is asked for, any class may be the blank, and few suffice.
    """
    if not request.asked and any(
        a.dtype.kind in "iu" and a.size > 1 for a in examples[0].feed.values()
    ):
        return None  # tokens, not pixels or sound
    for name in examples[0].outputs:
        arrays = [example.outputs[name] for example in examples]
        shape = arrays[0].shape
        steps_first = len(shape) == 3 and shape[1] == 1 < shape[0]
        steps = shape[0] if steps_first else shape[-2] if len(shape) in (2, 3) else 0
        if steps < 2 or any(a.dtype.kind != "f" or a.ndim != len(shape) for a in arrays):
            continue
        best = np.concatenate([a.argmax(axis=-1).reshape(-1) for a in arrays])
        counts = np.bincount(best, minlength=shape[-1])
        blank = int(counts.argmax())
        share = counts[blank] / counts.sum()
        at_an_end = blank in (0, shape[-1] - 1) and MIN_BLANKS <= share < 1
        clear = is_distribution(arrays[0]) or share >= 1.5 * MIN_BLANKS
        few = shape[-1] < MIN_CLASSES or steps > MAX_STEPS
        if request.asked or (at_an_end and clear and not few and len(shape) == 3):
            return CtcTask(name, blank, steps_first), (
                f"output {name} gives scores of {shape[-1]} classes at {steps} steps; "
                f"class {blank}, the blank, is the best one at {100 * share:.0f} % of them"
            )
    return None
