"""Speed of one model relative to another, measured in interleaved runs, with an interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.evaluation.intervals import Interval, median_interval
from ptq.model.session import Session

_SECONDS, _MAX_ROUNDS = 0.6, 200
_MIN_ROUNDS = 3


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
    reference: Session, candidate: Session, feed: Mapping[str, NDArray[Any]]
) -> Speed:
    """Time both models in turns on one sample: for 0.6 s, but at least 3 and at most 200 rounds.

    A round runs both models one after the other, so that other work of the processor slows both. The model that
    starts changes from round to round.
    """
    rounds = time_in_turns([reference, candidate], [feed], seconds=_SECONDS)
    return summarize_ratios([before / after for before, after in rounds])


def time_in_turns(
    sessions: Sequence[Session],
    feeds: Sequence[Mapping[str, NDArray[Any]]],
    *,
    seconds: float,
    most: int = _MAX_ROUNDS,
) -> list[tuple[float, ...]]:
    """Time several models in turns: at least 3 rounds, then for some seconds, but at most so many rounds.

    Args:
        sessions: The models.
        feeds: Samples; each round takes the next one.
        seconds: Time for all rounds.
        most: Number of rounds after which it ends anyway.

    Returns:
        Seconds of each model in each round. The model that starts changes from round to round.
    """
    rounds: list[tuple[float, ...]] = []
    first = perf_counter()
    while len(rounds) < _MIN_ROUNDS or (len(rounds) < most and perf_counter() - first < seconds):
        turn = len(rounds) % len(sessions)
        feed = feeds[len(rounds) % len(feeds)]
        taken = [_time_run(session, feed) for session in (*sessions[turn:], *sessions[:turn])]
        start = len(sessions) - turn
        rounds.append((*taken[start:], *taken[:start]))
    return rounds


def summarize_ratios(ratios: Sequence[float]) -> Speed:
    """The speed that the ratios of several rounds show."""
    return Speed(float(np.median(ratios)), median_interval(ratios), len(ratios))


def _time_run(session: Session, feed: Mapping[str, NDArray[Any]]) -> float:
    start = perf_counter()
    session.run(feed)
    return max(perf_counter() - start, 1e-9)
