"""Counts of labelled samples by label and predicted class, and which shares of right samples are low."""

from __future__ import annotations

from collections.abc import Mapping

from ptq.evaluation.intervals import compute_clopper_pearson_interval

Confusion = Mapping[tuple[int, int], int]
"""Number of samples by (label, predicted class), of samples with one label."""

LOW_ACCURACY = 0.5
"""A trained model that is wrong more often than right is rare. Its accuracy is low if the whole 95 % interval of its
share of right samples (Clopper and Pearson) is below; it may be low if the lower end is."""


MAX_LISTED = 5000
"""Entries of a confusion in a report: all of 70 classes, and what occurs of more."""


def list_classes(
    confusion: Confusion, totals: Mapping[int, int]
) -> tuple[tuple[int, int, int], ...]:
    """Label, number of its samples, and how many of them are right; all labels in order.

    Args:
        confusion: Samples with an answer.
        totals: Number of samples by label; those without an answer, as NaN, count too.
    """
    return tuple(
        (label, totals[label], confusion.get((label, label), 0)) for label in sorted(totals)
    )


def list_confusion(confusion: Confusion) -> tuple[tuple[int, int, int], ...]:
    """Label, predicted class and number; right ones first, then errors, the most frequent first; 5000 at most."""
    counts = sorted(
        confusion.items(), key=lambda item: (item[0][0] != item[0][1], -item[1], item[0])
    )
    return tuple((label, predicted, count) for (label, predicted), count in counts[:MAX_LISTED])


def count_right(confusion: Confusion) -> tuple[int, int]:
    """Number of right samples, and of all samples."""
    right = sum(count for (label, predicted), count in confusion.items() if label == predicted)
    return right, sum(confusion.values())


def is_low(right: int, total: int) -> bool:
    """Whether so few right samples show a low accuracy."""
    return total > 0 and compute_clopper_pearson_interval(right, total)[1] < LOW_ACCURACY


def may_be_low(right: int, total: int) -> bool:
    """Whether the accuracy may be low."""
    return total > 0 and compute_clopper_pearson_interval(right, total)[0] < LOW_ACCURACY
