"""Statistics against direct counts of the data, and against themselves in another order."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ptq.core.errors import StatsError
from ptq.core.types import FloatArray
from ptq.observers import array_counts, key_counter
from ptq.observers.key_counter import get_thread_counter
from ptq.observers.stats import TensorStats

FLOATS = st.floats(width=32, allow_nan=True, allow_infinity=True, allow_subnormal=True)
ARRAYS = hnp.arrays(np.float32, st.integers(0, 60), elements=FLOATS)
MIXED = st.one_of(
    ARRAYS,
    st.builds(
        lambda seed, size: np.random.default_rng(seed).normal(size=size).astype(np.float32),
        st.integers(0, 5),
        st.integers(0, 3000),
    ),
)


def stats_of(*parts: FloatArray) -> TensorStats:
    stats = TensorStats()
    for part in parts:
        stats.update(part)
    return stats


def content(stats: TensorStats) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in stats.to_arrays().items()}


def relu6(seed: int, size: int) -> FloatArray:
    x = np.random.default_rng(seed).normal(1, 3, size)
    return np.clip(x, 0, 6).astype(np.float32)


def flushed(x: FloatArray) -> FloatArray:
    """The finite values, with 0 for magnitudes below 2^-133."""
    x = x[np.isfinite(x)]
    return np.where(np.abs(x) < 2.0**-133, np.float32(0), x)


def counted_by_numpy(x: FloatArray) -> dict[int, int]:
    x = flushed(x)
    x = x[x != 0]
    counts = np.bincount(x.view(np.uint32) >> 16, minlength=65536)
    return {int(cell): int(counts[cell]) for cell in np.flatnonzero(counts)}


@given(st.lists(MIXED, min_size=1, max_size=4))
def test_tally_and_extremes_are_those_numpy_finds_in_the_data(parts: list[FloatArray]) -> None:
    stats, x = stats_of(*parts), np.concatenate(parts)
    finite = flushed(x)
    assert stats.count == finite.size
    assert stats.zeros == np.count_nonzero(finite == 0)
    assert stats.nan == np.count_nonzero(np.isnan(x))
    assert stats.pos_inf == np.count_nonzero(x == np.inf)
    assert stats.neg_inf == np.count_nonzero(x == -np.inf)
    assert stats.nonfinite_count == x.size - finite.size
    if finite.size:
        assert (stats.min, stats.max) == (finite.min(), finite.max())
        assert stats.at_min == np.count_nonzero(finite == finite.min())
        assert stats.at_max == np.count_nonzero(finite == finite.max())


@given(st.lists(MIXED, min_size=1, max_size=4))
def test_cells_are_those_numpy_counts_in_the_data(parts: list[FloatArray]) -> None:
    cells, counts = stats_of(*parts).cell_counts()
    found = dict(zip(cells.tolist(), counts.tolist(), strict=True))
    assert found == counted_by_numpy(np.concatenate(parts))


@pytest.mark.parametrize("size", [4095, 4096, 4097])
def test_cells_of_as_many_values_as_change_the_way_of_counting_are_numpys(size: int) -> None:
    x = np.random.default_rng(size).normal(size=size).astype(np.float32)
    x[::7] = 0
    stats = stats_of(x)
    cells, counts = stats.cell_counts()
    assert dict(zip(cells.tolist(), counts.tolist(), strict=True)) == counted_by_numpy(x)
    assert stats.zeros == np.count_nonzero(x == 0)


@given(st.lists(MIXED, min_size=1, max_size=4))
def test_distinct_values_are_those_of_numpy_unique_up_to_1024(parts: list[FloatArray]) -> None:
    stats, x = stats_of(*parts), np.concatenate(parts)
    values, counts = np.unique(flushed(x), return_counts=True)
    if values.size > 1024:
        assert stats.values is None
    else:
        np.testing.assert_array_equal(stats.values, values)
        np.testing.assert_array_equal(stats.value_counts, counts)


@given(MIXED, MIXED, MIXED)
def test_merge_is_associative_and_commutative_and_equals_one_update(
    a: FloatArray, b: FloatArray, c: FloatArray
) -> None:
    one = content(stats_of(np.concatenate([a, b, c])))
    x, y, z = stats_of(a), stats_of(b), stats_of(c)
    assert content(x.merge(y).merge(z)) == one
    assert content(x.merge(y.merge(z))) == one
    assert content(z.merge(x).merge(y)) == one
    assert x == stats_of(a)  # merging changed nothing


@pytest.mark.parametrize("pieces", [1, 7, 1000])
@pytest.mark.parametrize("kind", ["relu6", "normal", "pixels", "tiny"])
def test_shuffled_and_batched_values_give_the_same_bytes(kind: str, pieces: int) -> None:
    rng = np.random.default_rng(3)
    x = {
        "relu6": relu6(0, 30_000),
        "normal": rng.normal(size=30_000).astype(np.float32),
        "pixels": (rng.integers(0, 256, 30_000) / 255).astype(np.float32),
        "tiny": (rng.normal(size=30_000) * 1e-38).astype(np.float32),
    }[kind]
    whole = content(stats_of(x))
    assert content(stats_of(*np.array_split(rng.permutation(x), pieces))) == whole


@pytest.mark.parametrize("size", [2**18 - 1, 2**18, 2**18 + 1, 700_000])
@pytest.mark.parametrize("kind", ["relu6", "normal", "pixels"])
def test_arrays_longer_than_one_chunk_are_counted_as_numpy_does(kind: str, size: int) -> None:
    rng = np.random.default_rng(size)
    x = {
        "relu6": relu6(1, size),
        "normal": rng.normal(size=size).astype(np.float32),
        "pixels": (rng.integers(0, 256, size) / 127 - 1).astype(np.float32),
    }[kind]
    stats = stats_of(x, x)
    cells, counts = stats.cell_counts()
    expected = {cell: 2 * n for cell, n in counted_by_numpy(x).items()}
    assert dict(zip(cells.tolist(), counts.tolist(), strict=True)) == expected
    assert stats.zeros == 2 * np.count_nonzero(x == 0)
    assert stats.at_max == 2 * np.count_nonzero(x == x.max())
    assert stats.at_min == 2 * np.count_nonzero(x == x.min())


def test_a_new_value_after_1024_makes_the_tensor_continuous_in_any_order() -> None:
    x = np.arange(1025, dtype=np.float32)
    assert stats_of(x[:1024]).values is not None
    assert stats_of(x).values is None
    assert content(stats_of(x[:1024], x[1024:])) == content(stats_of(x[1024:], x[:1024]))


def test_new_values_that_come_late_in_an_array_are_found() -> None:
    x = np.repeat(np.arange(300, dtype=np.float32), 2000)  # 600,000 values, sorted
    stats = stats_of(x)
    assert stats.values is not None
    np.testing.assert_array_equal(stats.values, np.arange(300))
    np.testing.assert_array_equal(stats.value_counts, 2000)


def test_negative_zero_counts_as_zero() -> None:
    assert content(stats_of(np.float32([-0.0, 0.0, 1]))) == content(stats_of(np.float32([0, 0, 1])))
    many = np.random.default_rng(0).normal(size=5000).astype(np.float32)
    signed = np.concatenate([many, np.full(9, -0.0, np.float32)])
    assert content(stats_of(signed)) == content(stats_of(np.abs(signed) * np.sign(signed)))


@pytest.mark.parametrize("size", [10, 5000])
def test_magnitudes_below_2_to_the_minus_133_count_as_zeros(size: int) -> None:
    x = np.zeros(size, np.float32)
    x[1:] = np.arange(2**16 - size + 1, 2**16, dtype=np.uint32).view(np.float32)  # below 2^-133
    stats = stats_of(x, -x[::-1], x[1:])
    assert (stats.zeros, stats.count) == (3 * size - 1, 3 * size - 1)
    assert (stats.min, stats.max, stats.at_min, stats.at_max) == (0, 0, *2 * [3 * size - 1])
    y = np.concatenate([x, np.float32([2.0**-133, -(2.0**-133)])])
    assert content(stats_of(y, x)) == content(stats_of(x, y)) == content(stats_of(*x[:, None], y))
    assert (stats_of(y).min, stats_of(y).max) == (-(2.0**-133), 2.0**-133)


def test_nan_and_infinities_are_counted_and_leave_the_range_alone() -> None:
    x = np.random.default_rng(0).normal(size=5000).astype(np.float32)
    dirty = np.concatenate([x, np.float32([np.nan, np.inf, np.inf, -np.inf])])
    stats = stats_of(x, dirty, dirty)
    clean = stats_of(x, x, x)
    assert (stats.nan, stats.pos_inf, stats.neg_inf, stats.nonfinite_count) == (2, 4, 2, 8)
    assert (stats.min, stats.max, stats.count) == (clean.min, clean.max, clean.count)


def test_float64_beyond_float32_is_counted_as_infinite() -> None:
    stats = TensorStats()
    stats.update(np.array([1e300, 2.0]))
    assert (stats.pos_inf, stats.max) == (1, 2.0)


@given(MIXED)
def test_arrays_round_trip(x: FloatArray) -> None:
    stats = stats_of(x)
    assert TensorStats.from_arrays(stats.to_arrays()) == stats


@pytest.mark.parametrize("name", ["tally", "extremes", "counts", "cells"])
def test_arrays_that_contradict_each_other_are_refused(name: str) -> None:
    arrays = stats_of(np.random.default_rng(0).normal(size=2000).astype(np.float32)).to_arrays()
    without = {key: array for key, array in arrays.items() if key != name}
    with pytest.raises(StatsError, match="damaged"):
        TensorStats.from_arrays(without)
    if name in ("tally", "cells"):
        with pytest.raises(StatsError, match="damaged"):
            TensorStats.from_arrays(arrays | {name: arrays[name][::-1]})
    with pytest.raises(StatsError, match="damaged"):
        TensorStats.from_arrays(arrays | {name: arrays[name][:-1]})


def test_updates_of_distinct_statistics_from_two_threads_do_not_mix() -> None:
    data = [relu6(seed, 50_000) for seed in range(8)]
    stats = [TensorStats() for _ in data]

    def count(which: int) -> None:
        for i in range(which, len(data), 2):
            for part in np.array_split(data[i], 9):
                stats[i].update(part)

    threads = [threading.Thread(target=count, args=(which,)) for which in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stats == [stats_of(x) for x in data]


def test_statistics_of_many_values_stay_small() -> None:
    stats = stats_of(np.random.default_rng(0).normal(size=1_000_000).astype(np.float32))
    assert sum(array.nbytes for array in stats.to_arrays().values()) < 60_000


def test_an_installation_without_the_compiled_loop_counts_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = relu6(4, 200_000)
    whole = content(stats_of(x, -x))
    monkeypatch.setattr(key_counter, "_find_loop", lambda: None)
    assert content(stats_of(x, -x)) == whole


def test_a_failure_amid_counting_leaves_no_counts_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    x, counter, whole = (
        relu6(5, 200_000),
        get_thread_counter(),
        content(stats_of(relu6(5, 200_000))),
    )
    with monkeypatch.context() as context:
        context.setattr(array_counts, "_evaluate", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            stats_of(x)
    assert not counter.counts.any()
    assert content(stats_of(x)) == whole


def test_an_extreme_of_minus_zero_is_stored_as_zero() -> None:
    x = np.linspace(-3, -1, 5000, dtype=np.float32)
    y = np.full(5000, -0.0, np.float32)
    assert content(stats_of(x, y, np.abs(y))) == content(stats_of(x, np.abs(y), y))
    assert not np.signbit(stats_of(x, y).max)


@pytest.mark.parametrize("sign", [1, -1])
def test_an_inner_extreme_at_the_edge_of_a_cell_is_counted_without_the_rest_of_the_cell(
    sign: int,
) -> None:
    x = sign * np.random.default_rng(0).uniform(0.5, 1, 5000).astype(np.float32)
    x[:3] = sign * 0.5
    stats = stats_of(x, x)
    assert (stats.at_min if sign > 0 else stats.at_max) == 2 * np.count_nonzero(np.abs(x) == 0.5)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("dirty", [False, True])
@pytest.mark.parametrize("end", [6.0, 5.9999, -1.0, 0.0, 1e-41, 1e-39])
def test_extremes_that_occur_often_are_counted_over_many_arrays(
    end: float, dirty: bool, order: int
) -> None:
    rng = np.random.default_rng(7)
    parts = [np.minimum(rng.normal(end, 2, 70_000), end).astype(np.float32) for _ in range(4)]
    parts += [np.float32([np.nan, 1, -np.inf])] if dirty else []
    parts += [parts[0] - np.float32(3), np.minimum(parts[1], 2) - 1, np.full(3, -0.0, np.float32)]
    stats, x = stats_of(*parts[::order]), np.concatenate(parts)
    x = flushed(x)
    assert (stats.min, stats.max) == (x.min(), x.max())
    assert (stats.at_min, stats.at_max) == (np.sum(x == x.min()), np.sum(x == x.max()))
    assert (stats.zeros, stats.count) == (np.count_nonzero(x == 0), x.size)
    cells, counts = stats.cell_counts()
    assert dict(zip(cells.tolist(), counts.tolist(), strict=True)) == counted_by_numpy(x)
    assert content(stats_of(*[-part for part in parts])) == content(
        stats_of(-np.concatenate(parts))
    )


@pytest.mark.parametrize("bounds", [(-1.0, 6.0), (-1.0, 5.9999), (0.0, 1e-39), (-0.75, np.inf)])
def test_known_bounds_change_no_statistic(bounds: tuple[float, float]) -> None:
    rng = np.random.default_rng(3)
    wide = [rng.normal(1, spread, 70_000).astype(np.float32) for spread in (0.1, 3, 3, 0.1, 3)]
    parts = [np.clip(part, *np.float32(bounds)) for part in [*wide, np.float32([np.nan, np.inf])]]
    told = TensorStats(bounds=tuple(float(bound) for bound in np.float32(bounds)))
    for part in parts:
        told.update(part)
    assert content(told) == content(stats_of(*parts))


def test_an_extreme_at_its_bound_is_not_searched_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told, x, searched = TensorStats(bounds=(-np.inf, 6.0)), relu6(0, 70_000), []
    told.update(x)
    add = array_counts.End.add
    monkeypatch.setattr(
        array_counts.End,
        "add",
        lambda end, values: [searched.append(end.negative), add(end, values)],
    )
    told.update(x)
    assert searched == []
    assert (told.max, told.at_max) == (6.0, 2 * np.count_nonzero(x == 6))


@pytest.mark.parametrize("times", [1, 2**31])
def test_a_pickle_is_exact_and_small_unless_the_counts_are_large(times: int) -> None:
    x = np.random.default_rng(0).normal(size=5000).astype(np.float32)
    once = TensorStats()
    once.update(x)
    arrays = once.to_arrays()
    large = {"tally": arrays["tally"] * times, "counts": arrays["counts"] * times}
    stats = TensorStats.from_arrays({**arrays, **large})
    sent = pickle.dumps(stats)
    assert pickle.loads(sent) == stats
    dense = stats._all_prefixes().counts
    assert (len(sent) < 0.6 * dense.nbytes + 2000) == (int(dense.max()) < 2**32)
