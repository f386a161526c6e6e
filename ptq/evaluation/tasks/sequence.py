"""Task ``sequence``: one token or tag at each position, as taggers and language models give them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ptq.evaluation.metrics import NO_CLASS, find_best_classes
from ptq.evaluation.tasks.task import (
    Arrays,
    Counts,
    CountsMeter,
    Example,
    Found,
    Ratio,
    TaskMeter,
    TaskRequest,
    choose_threshold,
    compute_share,
    is_distribution,
)

MASK = "attention_mask"
_MASKS = re.compile("^(?!.*pad).*mask", re.IGNORECASE)
"""Other names of it; a mask of the padding has 1 where others have 0."""
_SCORES = re.compile(r"logit|score|prob", re.IGNORECASE)
_ENDS = re.compile(r"start|end", re.IGNORECASE)
"""Ends of an answer in a text: of these, the best position decides."""


@dataclass(frozen=True)
class SequenceTask:
    """Takes the best class at each position that is not padding.

    Attributes:
        output: Name of the output, shape (rows, positions, classes), or (rows, positions) with a threshold.
        threshold: The value above which the class of a position is 1, not 0; None for scores of classes.
    """

    output: str
    threshold: float | None = None
    name: Literal["sequence"] = "sequence"
    metric: str = "agreement of tokens"
    ratios: Sequence[Ratio] = (
        Ratio("equal sequences", lambda sums: 1 - compute_share(sums[2], sums[3])),
    )

    def decode(self, output: NDArray[Any]) -> NDArray[np.int64]:
        """The class at each position; `NO_CLASS` of NaN alone."""
        if self.threshold is None:
            return find_best_classes(output, -1)
        above = (output > self.threshold).astype(np.int64)
        return np.where(np.isnan(output), NO_CLASS, above)

    def compare(self, reference: Arrays, other: Arrays, feed: Arrays) -> Counts:
        """Tokens that differ, tokens, sequences that differ, sequences.

        Positions at which the reference has no class decide nothing.
        """
        before = self.decode(reference[self.output])
        same_shape = other[self.output].shape == reference[self.output].shape
        after = self.decode(other[self.output]) if same_shape else np.full_like(before, NO_CLASS)
        used = find_positions(feed, before.shape) & (before != NO_CLASS)
        differs = (before != after) & used
        by_row = differs.reshape(-1, before.shape[-1]).any(axis=1)
        rows = used.reshape(-1, before.shape[-1]).any(axis=1)
        return np.array([differs.sum(), used.sum(), by_row.sum(), rows.sum()], np.float64)

    def start(self) -> TaskMeter:
        """A meter without samples."""
        return CountsMeter(self)


def is_end_of_answer(output: str) -> bool:
    """Whether an output's name says that it scores starts or ends of an answer in a text."""
    return _ENDS.search(output) is not None


def find_positions(feed: Arrays, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Positions that are not padding: those of the attention mask, if the model has one of this shape."""
    fitting = {name: array for name, array in feed.items() if array.shape == shape}
    if MASK in fitting:
        return np.asarray(fitting[MASK] != 0, bool)
    for name, array in fitting.items():
        if _MASKS.search(name) and array.dtype.kind in "iu" and np.isin(array, (0, 1)).all():
            return np.asarray(array != 0, bool)
    return np.ones(shape, bool)


def find_tokens(examples: Sequence[Example], request: TaskRequest) -> Found | None:
    """Scores at each position of the input tokens, by the name of the output or because they are probabilities.

    One value at each position is two classes, by its name, if there is a mask or if lengths vary.
    """
    lengths = {
        array.shape
        for array in examples[0].feed.values()
        if array.dtype.kind in "iu" and array.ndim == 2
    }
    for name, scores in examples[0].outputs.items():
        if scores.ndim != 3 or scores.dtype.kind != "f" or scores.shape[-1] < 2:
            continue
        likely = scores.shape[:2] in lengths and (_SCORES.search(name) or is_distribution(scores))
        if request.asked or likely:
            return SequenceTask(name), (
                f"output {name} gives scores of {scores.shape[-1]} classes at each of "
                f"{_describe_span(examples, name)} positions"
            )
    for name, values in examples[0].outputs.items():
        arrays = [example.outputs[name] for example in examples]
        fits = values.shape in lengths and values.shape[-1] > 1 and values.dtype.kind == "f"
        named = _SCORES.search(name) and not is_end_of_answer(name)
        by_token = MASK in examples[0].feed or len({array.shape for array in arrays}) > 1
        if fits and (request.asked or (named and by_token)):
            threshold = choose_threshold(arrays)
            return SequenceTask(name, threshold), (
                f"output {name} gives one {'probability' if threshold else 'logit'} at each of "
                f"{_describe_span(examples, name)} positions: class 1 above {threshold:g}, else class 0"
            )
    return None


def _describe_span(examples: Sequence[Example], output: str) -> str:
    """The positions of the output in the examples."""
    lengths = [example.outputs[output].shape[1] for example in examples]
    fewest, most = min(lengths), max(lengths)
    return str(most) if fewest == most else f"{fewest} to {most}"
