"""Whether other processes take samples of a stage, and how many at once."""

from __future__ import annotations

import numpy as np
import pytest

from ptq.data import Sample
from ptq.data.workers.sample_parts import ConsecutiveParts, PartCutter
from ptq.data.workers.sharing_gain import SharingGain, count_bytes, estimate_moving


def test_the_bytes_of_a_result_are_those_of_its_pickle() -> None:
    result = [("a", np.zeros(10**6, np.float32)), np.zeros((100, 100))[:, ::2]]
    assert count_bytes(result) == pytest.approx(4_000_000 + 100 * 50 * 8, rel=0.01)


def test_a_stage_is_shared_only_if_it_takes_longer_than_opening_and_moving() -> None:
    few, large = SharingGain(opening=0.1), SharingGain(opening=0.1)
    few.record(0.2, 2, 0)
    large.record(0.2, 2, np.zeros(10**8, np.uint8))  # 0.5 s to move
    assert [few.pays(4), few.pays(6), large.pays(34), large.pays(36)] == [False, True, False, True]


def test_a_job_that_runs_on_small_sets_again_and_again_is_shared_in_the_end() -> None:
    gain, shared = SharingGain(opening=0.1), []
    for _ in range(12):
        gain.start()
        gain.record(0.2, 2, 0)
        shared.append(gain.pays(1))
    assert shared == [False] * 9 + [True] * 3


def test_the_first_parts_tell_nothing_of_the_usual_time() -> None:
    gain, usual = SharingGain(), []
    for seconds in (9.0, 1.0, 0.2, 0.1, 0.1):
        gain.record(seconds, 1, 0)
        usual.append(gain.usual)
    assert usual == [0, 0, 0, 0.1, 0.1]


def test_a_part_is_larger_the_more_its_result_costs_but_each_process_gets_some() -> None:
    gains = [SharingGain() for _ in range(3)]
    assert gains[0].smallest_part(1000, 2) == 0
    for gain, size in zip(gains, (0, 10**7, 10**8), strict=True):
        gain.record(0.1, 4, np.zeros(size, np.uint8))
    assert [gain.smallest_part(1000, 2) for gain in gains] == [0, 16, 160]
    assert gains[2].smallest_part(100, 4) == 25


def test_before_the_first_part_an_earlier_stage_tells_the_time() -> None:
    gain = SharingGain(opening=0.1)
    assert [gain.pays(6), gain.pays(6, 0.1), gain.pays(4, 0.1)] == [False, True, False]
    gain.record(0.001, 1, 0)
    assert not gain.pays(6, 0.1)


def test_what_does_not_pay_to_share_is_one_part() -> None:
    samples, gain = [Sample(str(k), {}) for k in range(14)], SharingGain()
    parts = ConsecutiveParts(PartCutter(samples, (), alone=False), 2, None, 2, gain)
    taken = [parts.take(first=True), parts.take(), parts.take(alone=True), parts.take(alone=True)]
    assert [None if part is None else part.count for part in taken] == [2, 2, 8, 2]


def test_the_size_of_a_result_counts_before_the_first_part_if_it_is_known() -> None:
    unknown = SharingGain(opening=0.1)
    large = SharingGain(opening=0.1, moving=estimate_moving(10**8))
    assert [one.pays(32, 0.1) for one in (unknown, large)] == [True, False]
    large.record(0.1, 1, 0)
    assert large.pays(32), "the measured size replaces it"
