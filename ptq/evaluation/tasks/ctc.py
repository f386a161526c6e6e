"""Task ``ctc``: text read greedily from scores over time, as text and speech recognizers give them.

The best class of each step is taken, repeats are merged, and blanks are left out (Graves et al., ICML 2006).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError, UsageError
from ptq.data.labels.alphabet import complete_alphabet, read_metadata_alphabet
from ptq.evaluation import intervals
from ptq.evaluation.drop import Drop, measure_top1_drop
from ptq.evaluation.metrics import NO_CLASS, Figure, find_best_classes
from ptq.evaluation.tasks.task import (
    Arrays,
    Counts,
    CountsMeter,
    Example,
    Found,
    Ratio,
    TaskMeter,
    TaskRequest,
    compute_share,
    is_distribution,
    measure_ratio,
)

EXACT_LINES, CHARACTER_ERRORS = "exact lines", "character error rate"
ADDED_ERRORS = "character error rate that float has not"
MIN_BLANKS = 0.3
"""Share of steps at which the blank is the best class; lines of text have 0.5 to 0.9."""
MIN_CLASSES = 8
"""Digits, a sign and the blank."""
MAX_STEPS = 3000
_UNREAD = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True)
class CtcTask:
    """Reads one line of text for each row of scores.

    Attributes:
        output: Name of the output, shape (rows, steps, classes) or (steps, rows, classes).
        blank: Index of the blank.
        steps_first: Whether the first axis is time.
        alphabet: The text of each class; empty if it is unknown.
        labels: Labelled texts by the name of the sample; with them exact lines are measured.
    """

    output: str
    blank: int
    steps_first: bool = False
    alphabet: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    name: Literal["ctc"] = "ctc"
    metric: str = "agreement of decoded sequences"
    ratios: Sequence[Ratio] = (
        Ratio("character error rate", lambda sums: compute_share(sums[2], sums[3])),
    )

    def decode(self, scores: NDArray[Any]) -> list[tuple[int, ...]]:
        """The classes read from the scores, one line for each row; `NO_CLASS` where steps are NaN alone."""
        best = find_best_classes(order_rows(scores, steps_first=self.steps_first), -1)
        merged = ([int(label) for label, _ in groupby(row)] for row in best)
        return [tuple(label for label in row if label != self.blank) for row in merged]

    def read(self, outputs: Arrays) -> str:
        """The text of one sample, without blanks at both ends; lines are separated by line feeds."""
        lines = self.decode(outputs[self.output])
        texts = (
            "".join(_UNREAD if label == NO_CLASS else self.alphabet[label] for label in line)
            for line in lines
        )
        return "\n".join(text.strip() for text in texts)

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
        return TextMeter(self) if self.labels else CountsMeter(self)


class TextMeter:
    """Exact lines and wrong characters of the float model and of another form, on samples with labelled texts."""

    def __init__(self, task: CtcTask) -> None:
        """``task`` holds the labels."""
        self._task, self._counts = task, CountsMeter(task)
        self._rows: list[tuple[bool, bool, int, int, int]] = []
        self._same = True

    def add(self, example: Example, other: Arrays) -> None:
        """Add one sample; one without a label counts for the agreement with float only."""
        self._same &= other is example.outputs
        self._counts.add(example, other)
        label = self._task.labels.get(example.name)
        if label is None:
            return
        before, after = (self._task.read(outputs) for outputs in (example.outputs, other))
        lost, left = (edit_distance(_to_codes(t), _to_codes(label)) for t in (before, after))
        self._rows.append((before == label, after == label, lost, left, len(label)))

    def measure_drop(self) -> Drop:
        """Loss of exact lines against float: McNemar's test, and Tango's interval for pairs."""
        rows = self._labelled()
        drop = measure_top1_drop([row[0] for row in rows], [row[1] for row in rows])
        return replace(drop, metric=EXACT_LINES)

    def measure_figures(self) -> tuple[Figure, ...]:
        """Exact lines and character error rate; of another form also what it adds to float's, and the agreement."""
        rows = np.array(self._labelled(), np.float64)
        exact = int(rows[:, 1].sum())
        interval = intervals.compute_clopper_pearson_interval(exact, len(rows))
        figures = [Figure(EXACT_LINES, exact / len(rows), interval)]
        rates = {CHARACTER_ERRORS: lambda sums: compute_share(sums[3], sums[4])}
        if not self._same:
            rates[ADDED_ERRORS] = lambda sums: compute_share(sums[3] - sums[2], sums[4])
        figures += [
            Figure(name, *measure_ratio(rows, rate, gains=name == ADDED_ERRORS))
            for name, rate in rates.items()
        ]
        if not self._same:
            drop = self._counts.measure_drop()
            kept = 1 - drop.points / 100, (1 - drop.hi / 100, 1 - drop.lo / 100)
            figures.append(Figure(drop.metric, *kept))
        return tuple(figures)

    def _labelled(self) -> list[tuple[bool, bool, int, int, int]]:
        """What was counted on each sample with a label.

        Raises:
            DataError: None of the samples has one.
        """
        if not self._rows:
            raise DataError("no labelled text belongs to a sample that accuracy is measured on")
        return self._rows


def _to_codes(text: str) -> list[int]:
    return [ord(character) for character in text]


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
            alphabet, missing = _find_alphabet(request, shape[-1], blank)
            return CtcTask(name, blank, steps_first, alphabet, request.labels.texts), (
                f"output {name} gives scores of {shape[-1]} classes at {steps} steps; "
                f"class {blank}, the blank, is the best one at {100 * share:.0f} % of them{missing}"
            )
    return None


def _find_alphabet(request: TaskRequest, classes: int, blank: int) -> tuple[tuple[str, ...], str]:
    """The text of each class, and a note on labels that it cannot write.

    Raises:
        UsageError: The characters do not fit the classes, or labels of texts come without any.
    """
    labels = request.labels
    listed = labels.alphabet or read_metadata_alphabet(request.metadata)
    alphabet = complete_alphabet(listed, classes, blank)
    if not alphabet and (labels.alphabet or (listed and labels.texts)):
        raise UsageError(
            f"{'the file' if labels.alphabet else 'the metadata of the model'} lists {len(listed)} characters, but "
            f"the output has {classes} classes; list one for each class in its order, with or without the blank "
            "(`alphabet`)"
        )
    if not alphabet and labels.texts:
        raise UsageError(
            "transcripts need the characters of the classes, which the model does not list; give a file with one "
            "character on each line (`alphabet`)"
        )
    characters = set("".join(alphabet))
    unknown = sum(not characters.issuperset(text) for text in labels.texts.values())
    if not unknown:
        return alphabet, ""
    return (
        alphabet,
        f"; {unknown} of {len(labels.texts)} labels have characters that it cannot write",
    )
