"""A user's metric; means and drops computed by hand are the oracle."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from networks import gaussian_array

from ptq.core.errors import DataError, UsageError
from ptq.data import Sample
from ptq.evaluation.budget import BudgetSearch, check_budget
from ptq.evaluation.drop import describe_drop, measure_top1_drop
from ptq.evaluation.evaluate import evaluate_engines
from ptq.evaluation.intervals import NO_INTERVAL
from ptq.evaluation.metrics import Figure
from ptq.evaluation.task_wording import describe_figures
from ptq.evaluation.user_metric import measure_metric, measure_metric_drop, require_metric

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
    drop = measure_metric_drop(right, BEFORE, AFTER, SAMPLES)
    assert (drop.metric, drop.points, drop.samples) == ("right", pytest.approx(10.0), COUNT)
    assert 0 <= drop.lo < 10 < drop.hi < 25


def test_one_number_for_all_is_asked_again_for_every_draw() -> None:
    drop = measure_metric_drop(share, BEFORE, AFTER, SAMPLES)
    assert (drop.metric, drop.points) == ("share", pytest.approx(10.0))
    # the same draws of the same samples, fewer of them
    each = measure_metric_drop(right, BEFORE, AFTER, SAMPLES)
    assert (drop.lo, drop.hi) == pytest.approx((each.lo, each.hi), abs=2.6)


@pytest.mark.parametrize("samples", [COUNT, 2500])  # above 2000, pools hold one sample or two
def test_equal_values_of_many_samples_have_no_wider_interval(samples: int) -> None:
    many = [Sample(str(k), {}) for k in range(samples)]
    found = measure_metric(lambda outputs, of: [0.995] * len(of), [{}] * samples, many)
    assert (found.value, *found.interval) == pytest.approx([0.995] * 3, abs=1e-9)


@pytest.mark.parametrize("metric", [right, share])
def test_a_metric_that_does_not_change_has_an_interval(metric: Any) -> None:
    drop = measure_metric_drop(metric, BEFORE, BEFORE, SAMPLES)
    # by Tango without discordant pairs: z² / (n + z²)
    width = 100 * 1.959964**2 / (COUNT + 1.959964**2)
    assert (drop.points, drop.lo, drop.hi) == (0, pytest.approx(-width), pytest.approx(width))


def _share_if(defined: Any, answer: Any) -> Any:
    """A metric that is undefined, as ``answer`` says, on resamples without some samples."""

    def metric(outputs: Any, samples: Any) -> float:
        return share(outputs, samples) if defined({s.name for s in samples}) else answer()

    return metric


def _raise() -> float:
    raise ValueError("only one class present")


@pytest.mark.parametrize("each", [True, False])
@pytest.mark.parametrize("gain", [False, True])
@pytest.mark.parametrize("one", [1, sum([0.1] * 10)])  # as the mean of ten parts rounds
def test_a_total_loss_has_the_interval_of_as_many_pairs(each: bool, gain: bool, one: float) -> None:
    def count_ones(outputs: Any, samples: Any) -> Any:
        del samples
        values = [float(one["y"][0]) for one in outputs]
        return values if each else float(np.mean(values))

    best, worst = [{"y": np.full(1, one)}] * 5, [{"y": np.zeros(1)}] * 5
    samples = [Sample(str(k), {"x": np.zeros(1)}) for k in range(5)]
    drop = measure_metric_drop(count_ones, *((worst, best) if gain else (best, worst)), samples)
    pairs = measure_top1_drop([not gain] * 5, [gain] * 5)
    assert (drop.points, drop.lo, drop.hi) == (pytest.approx(pairs.points), pairs.lo, pairs.hi)
    assert drop.hi - drop.lo > 50


@pytest.mark.parametrize("answer", [_raise, lambda: float("nan"), lambda: [1.0, 2.0]])
def test_resamples_on_which_a_metric_is_undefined_are_left_out(answer: Any) -> None:
    # a resample lacks each of two samples with probability e⁻¹: 14 % lack both
    drop = measure_metric_drop(
        _share_if(lambda names: names & {"s0", "s1"}, answer), BEFORE, AFTER, SAMPLES
    )
    every = measure_metric_drop(share, BEFORE, AFTER, SAMPLES)
    assert drop.points == every.points
    assert (drop.lo, drop.hi) == pytest.approx((every.lo, every.hi), abs=2.6)


def test_without_most_resamples_there_is_no_interval_and_no_verdict() -> None:
    # 60 % of the resamples lack one of two samples
    drop = measure_metric_drop(_share_if({"s0", "s1"}.issubset, _raise), BEFORE, AFTER, SAMPLES)
    assert (drop.points, drop.has_interval) == (pytest.approx(10.0), False)
    assert describe_drop(drop) == (
        "metric −10.00 points (no 95 % CI: too few samples define the metric)"
    )
    search = BudgetSearch(1.0, False, drop, drop, 100, True, {}, 1)
    for points in (1, 50):
        assert check_budget(drop, points).verdict == "undecided"
        assert check_budget(drop, points, search).verdict == "undecided"


def test_what_a_metric_raises_is_one_line_and_names_it() -> None:
    def broken(outputs: Any, samples: Any) -> float:
        raise KeyError("boxes")

    with pytest.raises(DataError, match=r"^metric broken: raised KeyError: 'boxes'$"):
        measure_metric_drop(broken, BEFORE, AFTER, SAMPLES)


@pytest.mark.parametrize("metric", [len, lambda outputs: 0.0])
def test_a_metric_that_takes_no_two_arguments_is_refused(metric: Any) -> None:
    with pytest.raises(UsageError, match=r"cannot be called with two arguments \(too many"):
        require_metric(metric)


@functools.wraps(len)
def wrapped(outputs: Any, samples: Any) -> float:
    """A function of one argument that is wrapped as a metric."""
    return len(outputs) / len(samples)


@pytest.mark.parametrize("metric", [right, max, print, lambda *both, scale=1: 0.0, wrapped])
def test_a_metric_that_takes_two_arguments_is_none_to_refuse(metric: Any) -> None:
    require_metric(metric)


def test_a_metric_without_return_is_named_so() -> None:
    with pytest.raises(UsageError, match=r"^metric <lambda> returns None; return one finite"):
        measure_metric_drop(lambda outputs, samples: None, BEFORE, AFTER, SAMPLES)


@pytest.mark.parametrize("answer", [float("nan"), [1.0, 2.0], [[1.0]]])
def test_an_answer_that_is_no_number_or_not_one_a_sample_is_refused(answer: Any) -> None:
    with pytest.raises(UsageError, match="return one finite number"):
        measure_metric_drop(lambda outputs, samples: answer, BEFORE, AFTER, SAMPLES)


@pytest.mark.parametrize("metric", [right, share])
def test_the_metric_of_one_model_has_an_interval(metric: Any) -> None:
    figure = measure_metric(metric, AFTER, SAMPLES)
    # 4 of 40 are wrong; the exact interval is 76 … 97 %
    assert (figure.name, figure.value) == (metric.__name__, pytest.approx(0.9))
    assert figure.interval == pytest.approx((0.8, 0.98), abs=0.03)


def test_a_metric_that_is_best_on_all_samples_may_be_worse_on_others() -> None:
    figure = measure_metric(right, BEFORE, SAMPLES)
    # by Clopper and Pearson without a failure: α/2 = p^n
    assert figure.interval == (pytest.approx(0.025 ** (1 / COUNT)), 1.0)


def test_a_metric_that_most_resamples_leave_undefined_has_no_interval() -> None:
    figure = measure_metric(_share_if({"s0", "s1"}.issubset, _raise), AFTER, SAMPLES)
    assert describe_figures((figure,)) == (
        "metric 90.00 % (no 95 % CI: too few samples define the metric)"
    )


def test_shares_may_exceed_their_whole_and_stay_percentages() -> None:
    figures = (
        Figure("character error rate", 1.043, (0.9, 1.2)),
        Figure("mean cosine to float", -0.02, (-0.1, 0.1)),
    )
    assert describe_figures(figures) == (
        "character error rate 104.30 % (95 % CI 90.00 … 120.00), "
        "mean cosine to float −2.00 % (95 % CI −10.00 … 10.00)"
    )


def test_one_sample_has_no_interval() -> None:
    def third(outputs: Any, samples: Any) -> list[float]:
        return [0.3 * float(o["y"][0]) for o in outputs]

    one, other = [{"y": np.ones(1)}], [{"y": np.zeros(1)}]
    assert measure_metric(third, one, SAMPLES[:1]).interval == NO_INTERVAL
    drop = measure_metric_drop(third, one, other, SAMPLES[:1])
    assert (drop.points, drop.has_interval) == (pytest.approx(30.0), False)


def test_a_model_alone_has_the_value_of_the_metric_and_no_drop() -> None:
    result = evaluate_engines(
        lambda f: [f["x"]], {}, SAMPLES, ["y"], metric=lambda outputs, samples: 0.5
    )
    (form,) = result.forms.values()
    assert form.drop is None
    assert [(f.name, f.value) for f in form.figures] == [("<lambda>", 0.5)]


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


@pytest.mark.parametrize(
    ("value", "text"),
    [(31.25, "psnr 31.25 (95 % CI 30.5 … 32)"), (-0.5, "psnr −0.5 (95 % CI −1.25 … 0.25)")],
)
def test_a_metric_on_another_scale_is_no_percentage(value: float, text: str) -> None:
    figure = Figure("psnr", value, (value - 0.75, value + 0.75), is_share=False)
    assert describe_figures((figure,)) == text


def count_distinct(outputs: Any, samples: Any) -> float:
    """The share of distinct outputs: on repeated samples it is lower than on all of them."""
    return len({float(o["y"].item()) for o in outputs}) / len(samples)


def test_a_drop_outside_its_resamples_has_no_interval_and_holds_no_budget() -> None:
    different = [{"y": np.float32([[i]])} for i in range(COUNT)]
    halves = [{"y": np.float32([[i // 2]])} for i in range(COUNT)]
    drop = measure_metric_drop(count_distinct, different, halves, SAMPLES)
    assert (drop.points, drop.has_interval) == (pytest.approx(50.0), False)
    why = "no 95 % CI: the metric behaves otherwise on repeated samples"
    assert describe_drop(drop) == f"count_distinct −50.00 points ({why})"
    budget = check_budget(drop, 40)  # resamples alone lose about 23 points
    assert budget.verdict == "undecided"
    assert budget.sentence.endswith(
        f"(count_distinct −50.00 points on 40 evaluation samples, {why})"
    )
    assert describe_figures((measure_metric(count_distinct, different, SAMPLES),)) == (
        f"count_distinct 100.00 % ({why})"
    )


def _softmax(outputs: Any, samples: Any, *, each: bool) -> Any:
    """Probability of class 0, computed in place."""
    for one, sample in zip(outputs, samples, strict=True):
        y = one["y"]
        y -= y.max()
        np.exp(y, out=y)
        y /= y.sum()
        sample.feed["x"][...] = 0
    found = [float(one["y"][0, 0]) for one in outputs]
    return found if each else float(np.mean(found))


@pytest.mark.parametrize("each", [True, False])
def test_a_metric_may_compute_in_place(each: bool) -> None:
    feeds = [{"x": gaussian_array(1, 2, seed=i)} for i in range(COUNT)]
    samples = [Sample(str(i), feed) for i, feed in enumerate(feeds)]
    before = [{"y": gaussian_array(1, 3, seed=i)} for i in range(COUNT)]
    after = [{"y": gaussian_array(1, 3, seed=COUNT + i)} for i in range(COUNT)]

    def metric(outputs: Any, of: Any) -> Any:
        return _softmax(outputs, of, each=each)

    def on_copies(outputs: Any, of: Any) -> Any:
        return _softmax(
            [{"y": o["y"].copy()} for o in outputs],
            [Sample(s.name, {"x": s.feed["x"].copy()}) for s in of],
            each=each,
        )

    expected = measure_metric_drop(on_copies, before, after, samples)
    assert all(feed["x"].all() for feed in feeds)
    found = measure_metric_drop(metric, before, after, samples)
    assert (found.points, found.lo, found.hi) == (expected.points, expected.lo, expected.hi)
    assert all(feed["x"].all() for feed in feeds)
    assert all(
        np.array_equal(one["y"], gaussian_array(1, 3, seed=i)) for i, one in enumerate(before)
    )
