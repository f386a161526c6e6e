"""Speed of one model relative to another, measured in interleaved runs, with an interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.evaluation.intervals import Interval, compute_median_interval, is_rough
from ptq.executor.runtimes.runtime import RuntimeModel
from ptq.model.session.session import Session

_SECONDS, _MAX_ROUNDS = 0.3, 200
_MORE_SECONDS, _MORE_ROUNDS = 1.5, 1000
"""Further time and rounds while noise hides which model is faster."""
_CLEARLY_FASTER = 1.25
"""Ratio in every round of a slow model that noise does not explain; no interval is needed then."""
_CHECKED_EVERY = 50
"""Rounds between two looks at the interval of many: one of 1,000 takes 10 ms."""
_MIN_ROUNDS = 3
_SURE_ROUNDS, _SURE_WIDTH = 11, 1.05
"""Rounds from which an interval of 5 % is narrow enough; few rounds can agree by chance."""
_CLEAR_ROUNDS, _CLEAR_WIDTH = 6, 1.1
"""Rounds from which an interval of 10 % is narrow enough if the candidate is clearly faster in each."""
_PAIRED_ROUNDS = 12
"""Rounds from which two make a pair. The model that starts finds other caches, which hides differences of 10 %."""


@dataclass(frozen=True)
class Speed:
    """Speed of a model relative to a reference.

    Attributes:
        ratio: Time of the reference over time of the model: the median over rounds, 2 for twice as fast.
        interval: 95 % interval of the median; 0 and infinity if there were too few rounds for one.
        rounds: Number of rounds. Each runs both models once.
    """

    ratio: float
    interval: Interval
    rounds: int


def measure_speed(
    reference: Session | RuntimeModel,
    candidate: Session | RuntimeModel,
    feed: Mapping[str, NDArray[Any]],
    *,
    least: float = 1.0,
) -> Speed:
    """Time both models in turns on one sample, until the interval of the ratio is at most 5 % wide.

    10 % are enough if the candidate is clearly faster in each round. It takes 0.3 s at most, but at least 3 and at
    most 200 rounds. If the interval then holds the wanted ratio, or is wider than 25 %, it goes on for up to 1.5 s or
    1,000 rounds. It does not if the first rounds took longer, or if they are too few for an interval and the
    candidate is clearly faster in each.

    A round runs both models one after the other, so that other work of the processor slows both. The model that
    starts changes from round to round; so the times of two rounds are added up, unless there are few.

    Args:
        reference: The model whose time counts as 1.
        candidate: The other model.
        feed: The sample.
        least: The ratio that is wanted: 1 if the candidate must not be slower.
    """
    sessions, feeds = [reference, candidate], [[feed], [feed]]
    rounds = time_in_turns(
        sessions, feeds, seconds=_SECONDS,
        is_enough=lambda found: _is_sure(found) or _is_clear(found, least),
    )  # fmt: skip
    if sum(map(sum, rounds)) <= _MORE_SECONDS and not (
        _is_sure(rounds) or _is_decided(rounds, least)
    ):
        rounds += time_in_turns(
            sessions, feeds, seconds=_MORE_SECONDS, most=_MORE_ROUNDS,
            is_enough=lambda more: _is_checked(len(more)) and _is_sure([*rounds, *more]),
        )  # fmt: skip
    speed = summarize_ratios(_find_ratios(rounds))
    return replace(speed, rounds=len(rounds))


def time_in_turns(
    sessions: Sequence[Session | RuntimeModel],
    feeds: Sequence[Sequence[Mapping[str, NDArray[Any]]]],
    *,
    seconds: float,
    most: int = _MAX_ROUNDS,
    is_enough: Callable[[Sequence[tuple[float, ...]]], bool] = lambda rounds: False,
) -> list[tuple[float, ...]]:
    """Time several models in turns: at least 3 rounds, then for some seconds, but at most so many rounds.

    Args:
        sessions: The models.
        feeds: Of each model, the samples in its types; each round takes the next one.
        seconds: Time for all rounds.
        most: Number of rounds after which it ends anyway.
        is_enough: Whether the rounds so far are enough.

    Returns:
        Seconds of each model in each round. The model that starts changes from round to round; of three and more
        models, each also follows each neighbour: what a model finds in the caches depends on the one before.
    """
    rounds: list[tuple[float, ...]] = []
    first = perf_counter()
    while len(rounds) < _MIN_ROUNDS or (len(rounds) < most and perf_counter() - first < seconds):
        number = len(rounds)
        taken = {
            n: _time_run(sessions[n], feeds[n][number % len(feeds[n])])
            for n in _order_models(number, len(sessions))
        }
        rounds.append(tuple(taken[n] for n in range(len(sessions))))
        if is_enough(rounds):
            break
    return rounds


def _order_models(number: int, models: int) -> list[int]:
    """The order of the models in a round: each starts in turn, three and more forwards and backwards."""
    if models > 2 and number // models % 2:
        return [(-1 - number - place) % models for place in range(models)]
    return [(number + place) % models for place in range(models)]


def _is_sure(rounds: Sequence[tuple[float, ...]]) -> bool:
    """Whether the interval of the ratio of two models is narrow enough."""
    return len(rounds) >= _SURE_ROUNDS and _is_narrow(rounds, _SURE_WIDTH)


def _is_clear(rounds: Sequence[tuple[float, ...]], least: float) -> bool:
    """Whether the candidate is clearly faster in every round, and the interval is narrow enough for that."""
    return (
        len(rounds) >= _CLEAR_ROUNDS
        and _is_clearly_faster(rounds, least)
        and _is_narrow(rounds, _CLEAR_WIDTH)
    )


def _is_narrow(rounds: Sequence[tuple[float, ...]], width: float) -> bool:
    lo, hi = compute_median_interval(_find_ratios(rounds))
    return hi <= lo * width


def _is_clearly_faster(rounds: Sequence[tuple[float, ...]], least: float) -> bool:
    return min(_find_ratios(rounds)) > _CLEARLY_FASTER * least


def _is_decided(rounds: Sequence[tuple[float, ...]], least: float) -> bool:
    """Whether the ratio of two models is above or below the wanted one for certain, in an interval that says how far.

    Few rounds of a slow model have no interval; the model must then be clearly faster in each.
    """
    lo, hi = interval = compute_median_interval(_find_ratios(rounds))
    if math.isinf(hi):
        return _is_clearly_faster(rounds, least)
    return not lo <= least <= hi and not is_rough(interval)


def _find_ratios(rounds: Sequence[tuple[float, ...]]) -> list[float]:
    """Time of the first model over that of the second, in pairs of rounds in which each starts once."""
    if len(rounds) < _PAIRED_ROUNDS:
        return [before / after for before, after in rounds]
    pairs = zip(rounds[::2], rounds[1::2], strict=False)
    return [(first[0] + second[0]) / (first[1] + second[1]) for first, second in pairs]


def _is_checked(count: int) -> bool:
    """Whether the interval is looked at after so many rounds."""
    return count < _CHECKED_EVERY or count % _CHECKED_EVERY == 0


def summarize_ratios(ratios: Sequence[float]) -> Speed:
    """The speed that the ratios of several rounds show."""
    return Speed(float(np.median(ratios)), compute_median_interval(ratios), len(ratios))


def _time_run(session: Session | RuntimeModel, feed: Mapping[str, NDArray[Any]]) -> float:
    start = perf_counter()
    session.run(feed)
    return max(perf_counter() - start, 1e-9)
