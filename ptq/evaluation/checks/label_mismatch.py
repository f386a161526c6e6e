"""Labels that do not match the predictions: in another order of the classes, or no better than by chance."""

from __future__ import annotations

from collections import Counter

import scipy

from ptq.data.labelling import Labelling
from ptq.data.labels.class_names import SORTED_ORDER
from ptq.evaluation.checks.label_permutation import find_permutation
from ptq.evaluation.confusion import Confusion, count_right, is_low
from ptq.evaluation.diagnosis import Diagnosis

MIN_SAMPLES = 50
"""Least number of labelled samples: fewer can be wrong by chance."""
MAX_SHARE = 0.5
"""Largest share of right samples: where one class is frequent, a good model is right by chance too."""
SIGNIFICANCE_LEVEL = 0.05


def find_label_mismatch(confusion: Confusion, labelling: Labelling | None) -> Diagnosis | None:
    """The best explanation of labels that do not match; None if they match.

    Args:
        confusion: Number of samples by (label, predicted class), of samples with one label.
        labelling: Where the labels come from; it has the names of the classes, if any.
    """
    return (
        find_permutation(confusion, labelling)
        or _find_chance_level(confusion, labelling)
        or _find_single_class(confusion)
        or _find_low_share(confusion)
    )


def _find_single_class(confusion: Confusion) -> Diagnosis | None:
    """Labels that are all one class, for example because the label of the other class is -1."""
    total, labels = count_right(confusion)[1], {label for label, _ in confusion}
    if total < MIN_SAMPLES or len(labels) != 1:
        return None
    return Diagnosis(
        f"all {total} labelled samples have label {labels.pop()}: their accuracy says nothing of other classes",
        "labels",
        "give labels of all classes from 0; -1 means that a sample has no label",
    )


def _find_low_share(confusion: Confusion) -> Diagnosis | None:
    """Predictions that are right on few samples, although more often than by chance."""
    right, total = count_right(confusion)
    if not is_low(right, total):
        return None
    return Diagnosis(
        f"low accuracy: the model gets {right} of {total} labelled samples right",
        "samples",
        "check that samples are prepared as in training, and that labels are right",
    )


def _find_chance_level(confusion: Confusion, labelling: Labelling | None) -> Diagnosis | None:
    """Predictions that are right as often as labels in random order would make them.

    The number of right samples would then be about binomial. Its share is the sum, over the classes, of the products
    of the shares of the label and of the prediction (Cohen 1960, the expected agreement of kappa).
    """
    right, total = count_right(confusion)
    if total < MIN_SAMPLES or right > MAX_SHARE * total:
        return None
    labels, predictions = Counter[int](), Counter[int]()
    for (label, predicted), count in confusion.items():
        labels[label] += count
        predictions[predicted] += count
    share = sum(count * predictions[label] for label, count in labels.items()) / total**2
    if right and float(scipy.special.bdtrc(right - 1, total, share)) < SIGNIFICANCE_LEVEL:
        return None
    from_folders = labelling is not None and labelling.source == SORTED_ORDER
    check = (
        "the folders in the folder of images are the classes"
        if from_folders
        else "each label belongs to its sample"
    )
    return Diagnosis(
        f"the model gets {right} of {total} labelled samples right, as many as by chance "
        f"(about {share * total:.0f}): labels do not match predictions",
        "labels",
        f"check that {check}, and that samples are prepared as in training",
    )
