"""Accuracy by class; counts of the labels themselves are the oracle."""

from __future__ import annotations

from collections import Counter

import numpy as np

from ptq.evaluation.confusion import MAX_LISTED, list_classes, list_confusion
from ptq.evaluation.presentation.classes import build_classes
from ptq.page.blocks import Table


def test_classes_have_all_their_samples_where_the_matrix_is_cut() -> None:
    rng = np.random.default_rng(0)
    labels, predicted = rng.integers(0, 200, (2, 8000))
    predicted[::5] = labels[::5]
    confusion = Counter(zip(labels.tolist(), predicted.tolist(), strict=True))
    counts, listed = list_classes(confusion, Counter(labels.tolist())), list_confusion(confusion)
    assert len(listed) == MAX_LISTED < len(confusion)
    expected = [
        (k, int((labels == k).sum()), int(((labels == k) & (predicted == k)).sum()))
        for k in range(200)
    ]
    assert counts == tuple(expected)
    [table] = build_classes((counts, counts), (listed, listed), {}).blocks
    assert isinstance(table, Table)
    shown = {row[0].text: (row[1].text, row[2].text) for row in table.rows}
    assert shown == {str(k): (str(n), f"{100 * right / n:.2f}") for k, n, right in expected}
