"""Oracle: int64 sums of the raw rows, and float64 covariances of numpy."""

from __future__ import annotations

import numpy as np
import pytest

from ptq.observers.covariance import Covariance, PooledCovariance


def codes(groups: int, count: int, length: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(-255, 256, (groups, length, count)).astype(np.int16)


def seen(rows: np.ndarray, step: int) -> Covariance:
    covariance = Covariance(rows.shape[0], rows.shape[1])
    for start in range(0, rows.shape[2], step):
        covariance.update(rows[:, :, start : start + step])
    return covariance


@pytest.mark.parametrize(("groups", "length"), [(1, 5), (3, 5), (1, 131)])
def test_sums_are_those_of_whole_numbers(groups: int, length: int) -> None:
    rows = codes(groups, 700, length)
    found, whole = seen(rows, 70), rows.astype(np.int64)
    assert found.count == 700
    np.testing.assert_array_equal(found.sums, whole.sum(axis=2))
    np.testing.assert_array_equal(found.outer_products, np.einsum("gkn,gln->gkl", whole, whole))


@pytest.mark.parametrize("first", [0, 20, 48, 131, 200])
@pytest.mark.parametrize("centred", [True, False])
def test_the_last_rows_of_a_matrix_are_those_of_the_whole(first: int, centred: bool) -> None:
    found = seen(codes(2, 40, 200), 20)
    whole = found.second_moment(centred=centred)
    rest = found.second_moment(centred=centred, first=first)
    np.testing.assert_array_equal(rest, whole[:, first:])


def test_rows_are_known_until_they_are_multiplied() -> None:
    rows = codes(2, 30, 5)
    found = seen(rows, 7)
    assert found.rows is not None
    np.testing.assert_array_equal(found.rows, rows)
    found.flush()
    assert found.rows is None
    np.testing.assert_array_equal(found.sums, rows.astype(np.int64).sum(axis=2))


@pytest.mark.parametrize("groups", [1, 3])
def test_batches_order_and_shards_make_no_difference_bit_for_bit(groups: int) -> None:
    rows = codes(groups, 1300, 7)
    whole = seen(rows, 1300)
    half = seen(rows[:, :, ::-1][:, :, :600], 1).merge(seen(rows[:, :, :700], 333))
    assert half.count == whole.count
    for centred in (True, False):
        assert (
            half.second_moment(centred=centred).tobytes()
            == whole.second_moment(centred=centred).tobytes()
        )


def test_the_moment_about_the_mean_is_the_covariance() -> None:
    rows = codes(1, 300, 4) + np.int16(100)
    expected = np.cov(rows[0].astype(np.float64), bias=True)
    np.testing.assert_allclose(seen(rows, 9).second_moment(centred=True)[0], expected, rtol=1e-9)


def test_nothing_seen_is_a_moment_of_zeros() -> None:
    assert not Covariance(2, 3).second_moment(centred=True).any()


def test_many_rows_of_large_codes_do_not_overflow() -> None:
    rows = np.full((1, 2, 70_000), 255, np.int16)
    np.testing.assert_array_equal(
        seen(rows, 7_000).outer_products, np.full((1, 2, 2), 70_000 * 255**2)
    )


def test_a_pooled_covariance_is_that_of_all_rows_in_one_scale() -> None:
    rng = np.random.default_rng(3)
    rows = [rng.integers(-100, 100, (1, 6, n)).astype(np.int16) for n in (40, 25)]
    scales = 0.5, 2.0
    parts = []
    for one, scale in zip(rows, scales, strict=True):
        covariance = Covariance(1, 6)
        covariance.update(one)
        parts.append((covariance, scale))
    pooled = PooledCovariance(parts)
    real = np.concatenate([one[0] * scale for one, scale in zip(rows, scales, strict=True)], axis=1)
    assert pooled.count == 65
    np.testing.assert_allclose(pooled.second_moment(centred=False)[0], real @ real.T / 65)
    centred = pooled.second_moment(centred=True)[0]
    np.testing.assert_allclose(centred, np.cov(real, bias=True))
