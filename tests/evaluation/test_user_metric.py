"""A user's metric; means and drops computed by hand are the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from networks import gaussian_array

from ptq.core.errors import DataError, UsageError
from ptq.data import Sample
from ptq.evaluation.evaluate import evaluate_engines
from ptq.evaluation.user_metric import metric_drop

COUNT = 40
SAMPLES = [Sample(f"s{i}", {"x": np.float32([[i]])}, (i % 2,)) for i in range(COUNT)]
BEFORE = [{"y": np.float32([[i % 2]])} for i in range(COUNT)]
AFTER = [{"y": np.float32([[0 if i < 8 else i % 2]])} for i in range(COUNT)]


def right(outputs: Any, samples: Any) -> list[float]:
    """1 for each sample whose output is its label."""
    return [float(o["y"].item() == s.labels[0]) for o, s in zip(outputs, samples, strict=True)]


def share(outputs: Any, samples: Any) -> float:
    """The mean of the same."""
    return float(np.mean(right(outputs, samples)))


def test_one_number_a_sample_is_averaged() -> None:
    drop = metric_drop(right, BEFORE, AFTER, SAMPLES)
    assert (drop.metric, drop.points, drop.samples) == ("right", pytest.approx(10.0), COUNT)
    assert 0 <= drop.lo < 10 < drop.hi < 25


def test_one_number_for_all_is_asked_again_for_every_draw() -> None:
    drop = metric_drop(share, BEFORE, AFTER, SAMPLES)
    assert (drop.metric, drop.points) == ("share", pytest.approx(10.0))
    # the same draws of the same samples, fewer of them
    each = metric_drop(right, BEFORE, AFTER, SAMPLES)
    assert (drop.lo, drop.hi) == pytest.approx((each.lo, each.hi), abs=2.6)


@pytest.mark.parametrize("metric", [right, share])
def test_a_metric_that_does_not_change_has_an_interval(metric: Any) -> None:
    drop = metric_drop(metric, BEFORE, BEFORE, SAMPLES)
    # by Tango without discordant pairs: z² / (n + z²)
    width = 100 * 1.959964**2 / (COUNT + 1.959964**2)
    assert (drop.points, drop.lo, drop.hi) == (0, pytest.approx(-width), pytest.approx(width))


def test_what_a_metric_raises_is_one_line_and_names_it() -> None:
    def broken(outputs: Any, samples: Any) -> float:
        raise KeyError("boxes")

    with pytest.raises(DataError, match=r"^metric broken: raised KeyError: 'boxes'$"):
        metric_drop(broken, BEFORE, AFTER, SAMPLES)


@pytest.mark.parametrize("answer", [float("nan"), [1.0, 2.0], [[1.0]]])
def test_an_answer_that_is_no_number_or_not_one_a_sample_is_refused(answer: Any) -> None:
    with pytest.raises(UsageError, match="return one finite number"):
        metric_drop(lambda outputs, samples: answer, BEFORE, AFTER, SAMPLES)


def test_an_evaluation_asks_the_metric_instead_of_its_own() -> None:
    def first(outputs: Any, samples: Any) -> list[float]:
        return [
            float(o["y"][0, 0] == s.feed["x"][0, 0]) for o, s in zip(outputs, samples, strict=True)
        ]

    made = [Sample(str(i), {"x": gaussian_array(1, 4, seed=i)}, (0,)) for i in range(6)]
    result = evaluate_engines(
        lambda f: [f["x"]], {"int8": lambda f: [f["x"] + 1]}, made, ["y"], batch=4, metric=first
    )
    assert result.forms["float"].drop is None
    drop = result.forms["int8"].drop
    assert drop is not None
    assert (drop.metric, drop.points, drop.samples) == ("first", 100.0, 6)
