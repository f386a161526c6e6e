"""Classes in another order than the model's: predictions then match labels one to one, but not by number.

The assignment of labels to predicted classes with the most hits is found (Kuhn 1955, the Hungarian method). It is
reported only if chance cannot explain it: by the Chernoff bound of the binomial tail, times the number of ways to
choose the classes of the moved labels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import scipy

from ptq.data.labelling import Labelling
from ptq.evaluation.confusion import Confusion, count_right
from ptq.evaluation.diagnosis import Diagnosis

MIN_GAIN = 0.1
"""Least share of all samples that must gain by another order."""
MIN_SHARE = 0.6
"""Least share of the samples with moved labels that must be right in the other order."""
SIGNIFICANCE_LEVEL = 1e-4
_MAX_LISTED = 30


def find_permutation(confusion: Confusion, labelling: Labelling | None) -> Diagnosis | None:
    """Another order of the classes in which the model is right significantly more often; None if there is none.

    Args:
        confusion: Number of samples by (label, predicted class), of samples with one label.
        labelling: Where the labels come from; it has the names of the classes, if any.
    """
    right, total = count_right(confusion)
    if right > (1 - MIN_GAIN) * total or not total:
        return None
    of_label: dict[int, int] = {}
    for (label, _), count in confusion.items():
        of_label[label] = of_label.get(label, 0) + count
    classes = len({number for pair in confusion for number in pair})
    mostly = {
        label: predicted for (label, predicted), n in confusion.items() if 2 * n > of_label[label]
    }
    movable = sorted(label for label, predicted in mostly.items() if label != predicted)
    most = sum(of_label[label] for label in movable)
    if not movable or not _is_significant(most, most, len(movable), classes):
        return None  # not even if all of these were right in another order
    assigned = _assign(confusion)
    moved = [label for label in movable if assigned[label] == mostly[label]]
    count = sum(of_label[label] for label in moved)
    hits = sum(confusion[label, assigned[label]] for label in moved)
    gain = hits - sum(confusion.get((label, label), 0) for label in moved)
    if (
        len(moved) < 2
        or hits < MIN_SHARE * count
        or gain < MIN_GAIN * total
        or not _is_significant(hits, count, len(moved), classes)
    ):
        return None
    return Diagnosis(
        f"the model gets {right} of {total} labelled samples right, but {right + gain} with the classes in another "
        "order: predictions match labels one to one",
        "labels",
        _advise({label: assigned[label] for label in sorted(assigned)}, moved, labelling),
        serious=True,
    )


def count_assigned(confusion: Confusion) -> int:
    """Number of right samples with the classes in the order that has the most."""
    assigned = _assign(confusion) if confusion else {}
    return sum(confusion.get(pair, 0) for pair in assigned.items())


def _assign(confusion: Confusion) -> dict[int, int]:
    """The predicted class of each label, all different, with the most hits; among equals, fewest labels move."""
    labels = sorted({label for label, _ in confusion})
    classes = sorted({number for pair in confusion for number in pair})
    row, column = ({n: k for k, n in enumerate(numbers)} for numbers in (labels, classes))
    hits = np.zeros((len(labels), len(classes)))
    for (label, predicted), count in confusion.items():
        hits[row[label], column[predicted]] = count
    for label in labels:
        hits[row[label], column[label]] += 1 / (len(labels) + 1)
    rows, columns = scipy.optimize.linear_sum_assignment(hits, maximize=True)
    return {labels[r]: classes[c] for r, c in zip(rows, columns, strict=True)}


def _is_significant(hits: int, count: int, moved: int, classes: int) -> bool:
    """Whether random predictions would give so many hits in one of classes^moved orders with low probability."""
    share, chance = hits / count, 1 / classes
    divergence = share * math.log(share / chance)
    if share < 1:
        divergence += (1 - share) * math.log((1 - share) / (1 - chance))
    return count * divergence >= moved * math.log(classes) - math.log(SIGNIFICANCE_LEVEL)


def _advise(assigned: Mapping[int, int], moved: list[int], labelling: Labelling | None) -> str:
    names = {} if labelling is None else {n: name for name, n in labelling.classes.items()}
    if set(assigned) <= set(names):
        by_class = sorted((predicted, names[label]) for label, predicted in assigned.items())
        whole = [number for number, _ in by_class] == list(range(len(by_class)))
        lines = [name if whole else f"{number} {name}" for number, name in by_class]
        file = "" if labelling is None else labelling.source.rpartition("numbered by ")[2]
        advice = "put a classes.txt into the folder of the samples that lists"
        if file.endswith(".txt"):
            advice = f"correct {file}, which must list"
        return f"{advice} the class names in the model's order, one a line: {_shorten(lines)}"
    shifts = {assigned[label] - label for label in moved}
    if len(shifts) == 1:
        (shift,) = shifts
        return f"{'add' if shift > 0 else 'subtract'} {abs(shift)} {'to' if shift > 0 else 'from'} the labels"
    return f"renumber the labels: {_shorten([f'{a} → {assigned[a]}' for a in moved])}"


def _shorten(lines: list[str]) -> str:
    rest = len(lines) - _MAX_LISTED
    return ", ".join(lines if rest <= 0 else [*lines[:_MAX_LISTED], f"and {rest} more"])
