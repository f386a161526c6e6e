"""Speed in interleaved runs. Oracles: clocks that are set here, and the binomial distribution."""

from __future__ import annotations

import math
import time
from collections import Counter
from itertools import pairwise
from typing import Any, cast

import numpy as np
import pytest
import scipy

from ptq.evaluation import speed
from ptq.evaluation.intervals import compute_median_interval, describe_speed
from ptq.evaluation.speed import measure_speed, summarize_ratios
from ptq.model.session.session import Session


class Clock:
    """Models that take the time that is said, on a clock of their own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.order = 0.0, list[str]()
        monkeypatch.setattr(speed, "perf_counter", lambda: self.now)

    def model(self, name: str, seconds: float, noise: Any = lambda: 0.0) -> Session:
        clock = self

        class Model:
            def run(self, feed: object) -> None:
                clock.order.append(name)
                clock.now += seconds * (1 + noise())

        return cast("Session", Model())


def test_the_ratio_is_time_of_the_reference_over_time_of_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    found = measure_speed(clock.model("float", 0.004), clock.model("int8", 0.002), {})
    assert found.ratio == pytest.approx(2)
    assert found.interval == pytest.approx((2, 2))


def test_the_models_run_in_turns_and_each_starts_as_often(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    measure_speed(clock.model("f", 0.01), clock.model("i", 0.01), {})
    assert "".join(clock.order[:8]) == "fiiffiif"


def test_of_three_models_each_follows_each_other_one_as_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    models = [clock.model(name, 0.01) for name in "fab"]
    speed.time_in_turns(models, [[{}]] * 3, seconds=1e9, most=60)
    rounds = ["".join(clock.order[start : start + 3]) for start in range(0, 180, 3)]
    assert {*map(len, map(set, rounds))} == {3}
    assert [sum(order[0] == name for order in rounds) for name in "fab"] == [20, 20, 20]
    followers = Counter(pair for order in rounds for pair in (order[:2], order[1:]))
    assert {*followers.values()} == {20}
    assert all(one != other for one, other in pairwise(clock.order))


def test_what_a_model_finds_in_the_caches_does_not_widen_the_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)

    def cold_by_a_quarter(name: str) -> Any:
        return lambda: 0.0 if clock.order[-2:-1] == [name] else 0.25

    found = measure_speed(
        clock.model("f", 0.004, cold_by_a_quarter("f")),
        clock.model("i", 0.002, cold_by_a_quarter("i")),
        {},
    )
    assert found.interval == pytest.approx((2, 2), rel=0.01)
    assert found.rounds < 20


def test_time_is_bounded_but_slow_models_run_three_times(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    rng = np.random.default_rng(1)
    noise = lambda: float(rng.exponential(3.0))  # noqa: E731
    mild = lambda: float(rng.exponential(0.5))  # noqa: E731
    assert (
        measure_speed(clock.model("f", 2e-5, mild), clock.model("i", 1e-5, mild), {}).rounds == 200
    )
    assert (
        measure_speed(clock.model("f", 1e-5, noise), clock.model("i", 1e-5, noise), {}).rounds
        == 1200
    )
    clock.now = 0.0
    measure_speed(clock.model("f", 1e-3, noise), clock.model("i", 1e-3, noise), {})
    assert clock.now < 2
    assert measure_speed(clock.model("f", 5.0), clock.model("i", 5.0), {}).rounds == 3
    clock.now = 0.0
    measure_speed(clock.model("f", 0.02), clock.model("i", 0.02), {})
    assert clock.now < 0.7


def test_slow_models_run_three_times_if_each_round_shows_a_gain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    slow = clock.model("f", 0.15)
    assert measure_speed(slow, clock.model("i", 0.1), {}).rounds == 3
    assert measure_speed(slow, clock.model("i", 0.1), {}, least=1.4).rounds > 5
    assert measure_speed(slow, clock.model("i", 0.14), {}).rounds > 5
    assert measure_speed(slow, clock.model("i", 0.2), {}).interval[1] < 1


def test_rounds_that_agree_end_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    found = measure_speed(clock.model("f", 1e-5), clock.model("i", 1e-5), {})
    assert 6 <= found.rounds < 20
    assert found.interval == pytest.approx((1, 1))


def test_a_model_that_is_clearly_faster_is_timed_less(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    floats, faster = clock.model("f", 0.012), clock.model("i", 0.008)
    assert measure_speed(floats, faster, {}).rounds == 6
    assert measure_speed(floats, faster, {}, least=1.4).rounds == 11
    assert measure_speed(floats, clock.model("i", 0.01), {}).rounds == 11


def test_a_model_that_noise_hides_to_be_slower_is_timed_until_that_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(2)
    clock = Clock(monkeypatch)
    noise = lambda: float(rng.exponential(1.0))  # noqa: E731
    floats, slower = clock.model("f", 3e-4, noise), clock.model("i", 3.3e-4, noise)
    found = [measure_speed(floats, slower, {}) for _ in range(20)]
    assert sum(one.interval[1] < 1 for one in found) >= 18
    assert all(one.rounds in (200, 1200) for one in found)


def test_an_interval_that_says_little_is_made_narrower(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    clock = Clock(monkeypatch)
    stalls = lambda: float(rng.choice([0.0, 20.0]))  # noqa: E731
    floats, int8 = clock.model("f", 6e-4, stalls), clock.model("i", 2e-4)
    found = measure_speed(floats, int8, {})
    assert found.interval[0] > 1
    assert found.rounds > 100


@pytest.mark.parametrize(("interval", "doubt"), [
    ((1.1025, 42.245), "; uncertain, 95 % CI 1.10 … 42.24"),
    ((9.4, 9.8), ""),
    ((0.0, math.inf), ""),
])  # fmt: skip
def test_a_speed_has_its_interval_beside_it_if_that_is_wide(
    interval: tuple[float, float], doubt: str
) -> None:
    text = describe_speed(9.583, interval, "float", "ONNX Runtime, batch 1")
    assert text == f"speed 9.58× float (ONNX Runtime, batch 1{doubt})"


def test_three_rounds_show_no_interval() -> None:
    found = summarize_ratios([0.5, 0.5, 0.5])
    assert found.interval == (0.0, math.inf)


def test_equal_models_are_not_slower_under_heavy_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    clock = Clock(monkeypatch)
    noise = lambda: float(rng.exponential(1.0))  # noqa: E731
    called_slower = 0
    for _ in range(40):
        found = measure_speed(clock.model("f", 0.001, noise), clock.model("i", 0.001, noise), {})
        called_slower += found.interval[1] < 0.95
    assert called_slower <= 2


@pytest.mark.parametrize("count", [6, 9, 20, 200, 2000])
def test_the_interval_of_a_median_is_the_narrowest_with_95_percent(count: int) -> None:
    values = [float(k) for k in range(count)]
    lo, hi = compute_median_interval(values[::-1])
    cut = int(lo) + 1
    assert hi == count - cut
    assert scipy.special.bdtr(cut - 1, count, 0.5) <= 0.025 < scipy.special.bdtr(cut, count, 0.5)


def test_real_sessions_are_timed() -> None:
    from networks import build_network, gaussian_array

    from ptq.model.graph import Graph

    session = Session(Graph.from_proto(build_network("y = Relu(x)")), threads=1)
    start = time.perf_counter()
    found = measure_speed(session, session, {"x": gaussian_array(1, 3, 8, 8)})
    assert found.interval[0] <= found.ratio <= found.interval[1]
    assert time.perf_counter() - start < 10
