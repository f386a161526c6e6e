"""Oracle: float64 sums of the raw data, and Python's exact fractions."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from threading import Barrier

import numpy as np
import pytest

from ptq.core.errors import StatsError
from ptq.observers.channel_sums import ChannelSums


def summed(arrays: list[np.ndarray], axis: int = 1) -> ChannelSums:
    sums = ChannelSums(axis)
    for array in arrays:
        sums.update(array)
    return sums


def samples(seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(3, 2, (1, 4, 5, 6)).astype(np.float32) for _ in range(9)]


def test_the_mean_is_that_of_the_raw_data() -> None:
    data = samples()
    raw = np.concatenate(data).astype(np.float64).mean(axis=(0, 2, 3))
    np.testing.assert_allclose(summed(data).mean, raw, rtol=1e-6)


def test_the_last_axis_of_a_matrix_is_summed_over_all_rows() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(summed([x]).mean, x.mean(axis=0))


def test_order_and_shards_make_no_difference_bit_for_bit() -> None:
    data = samples()
    whole = summed(data).to_arrays()
    shuffled = summed(data[::-1]).to_arrays()
    merged = summed(data[:2]).merge(summed(data[2:7])).merge(summed(data[7:])).to_arrays()
    for other in (shuffled, merged):
        assert whole.keys() == other.keys()
        assert all(whole[k].tobytes() == other[k].tobytes() for k in whole)


def test_merging_leaves_both_sides_as_they_were() -> None:
    one, two = summed(samples(1)), summed(samples(2))
    before = one.to_arrays()
    one.merge(two)
    assert all(np.array_equal(before[k], v) for k, v in one.to_arrays().items())


def test_sums_are_exact_to_forty_binary_places() -> None:
    x = np.array([[0.1, -0.1, 1e6]], np.float32)
    sums = summed([x] * 3)
    exact = [3 * Fraction(float(v)) for v in x[0]]
    assert sums.sums is not None
    kept = [int(w) + Fraction(int(f), 2**40) for w, f in zip(*sums.sums, strict=True)]
    assert all(abs(a - b) <= Fraction(3, 2**41) for a, b in zip(kept, exact, strict=True))


def test_the_fractions_of_very_many_samples_are_carried() -> None:
    both = one = summed([np.full((1, 1), 1 - 2**-24, np.float32)])
    for _ in range(25):
        both = both.merge(both)
    assert both.count == 2**25
    assert both.mean == [1 - 2**-24]
    assert both.merge(one) == one.merge(both)


def test_a_sample_that_is_not_finite_makes_the_mean_unknown() -> None:
    sums = summed([np.array([[1.0, np.inf]], np.float32)])
    assert sums.skipped_samples == 1
    assert sums.mean is None


def test_a_changing_number_of_channels_is_an_error() -> None:
    with pytest.raises(StatsError, match="channels"):
        summed([np.ones((1, 3), np.float32), np.ones((1, 4), np.float32)])


def test_arrays_read_back_as_the_same_sums() -> None:
    sums = summed(samples())
    again = ChannelSums.from_arrays(sums.to_arrays())
    assert all(np.array_equal(v, again.to_arrays()[k]) for k, v in sums.to_arrays().items())


def test_damaged_arrays_are_refused() -> None:
    with pytest.raises(StatsError, match="damaged"):
        ChannelSums.from_arrays({"tally": np.array([1, 2])})


def test_a_pickle_holds_totals_and_no_sums_of_single_samples() -> None:
    sums = summed(samples())
    sent = pickle.dumps(sums)
    again = pickle.loads(sent)
    assert len(sent) < 600  # nine samples of four channels take 288 bytes more
    np.testing.assert_array_equal(again.sums, sums.sums)
    assert (again.count, again.axis) == (sums.count, sums.axis)


@pytest.mark.parametrize(
    "read", [lambda s: s.count, lambda s: s.skipped_samples, lambda s: s.mean.tolist()]
)
def test_threads_that_read_at_once_read_the_same(read: Callable[[ChannelSums], object]) -> None:
    data, threads = samples(), 8
    expected, start = read(summed(data)), Barrier(threads)

    def read_at_once(sums: ChannelSums) -> object:
        start.wait()
        return read(sums)

    with ThreadPoolExecutor(threads) as pool:
        for _ in range(300):
            found = [*pool.map(read_at_once, [summed(data)] * threads)]
            assert found == [expected] * threads
