"""Requantization in float32 with exact ties, against the exact rule for every accumulator."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from ptq.core.types import INT8, UINT8, QType, QuantParams
from ptq.executor.arithmetics.litert_requantizer import (
    make_float64_requantizer,
    make_gemmlowp_requantizer,
)
from ptq.executor.arithmetics.node_site import Site
from ptq.kernels.fixed_point import rescale
from ptq.kernels.requantizer import Requantizer


def site(zero_point: int, qtype: QType, clamp: tuple[int, int] | None = None) -> Site:
    y = QuantParams(np.float32(0.1), zero_point, qtype)
    return Site("Conv", {}, (), (y,), (), clamp)


def requantize_in_slices(
    requantize: Requantizer, acc: np.ndarray, width: int, dtype: type
) -> np.ndarray:
    """Finish tiles of up to 3 of the channels, as float32 or int32."""
    tiles = [
        requantize(acc[:, c : c + 3].astype(dtype), slice(c, min(c + 3, width)))
        for c in range(0, width, 3)
    ]
    return np.concatenate(tiles, axis=1)


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("scale", [0.9, 0.3, 0.04, 0.0011, 2.0**-7, 3 * 2.0**-9, 1.7])
@pytest.mark.parametrize("zero_point", [-5, -128])
def test_gemmlowp_requantizer_is_two_roundings_of_every_accumulator(
    scale: float, dtype: type, zero_point: int
) -> None:
    channels = 7
    rng = np.random.default_rng(0)
    reals = scale * np.exp(rng.uniform(-0.5, 0.5, channels))
    reals[:2] = scale
    reach = min(int(300 / scale), 2**24 - 1)
    acc = rng.integers(-reach, reach, (4000, channels))
    requantize = make_gemmlowp_requantizer(site(zero_point, INT8), reals)
    exact = np.clip(rescale(acc, reals) + zero_point, -128, 127)
    np.testing.assert_array_equal(requantize_in_slices(requantize, acc, channels, dtype), exact)
    np.testing.assert_array_equal(requantize(acc.astype(dtype), slice(0, channels)), exact)


@pytest.mark.parametrize("numerator", [1, 3, 37, 255])
@pytest.mark.parametrize("zero_point", [-128, 0])
def test_gemmlowp_requantizer_rounds_values_at_and_near_every_tie(
    numerator: int, zero_point: int
) -> None:
    # acc · numerator / 2^9 meets every tie, and the two roundings make ties of its neighbours
    real = numerator / 512
    reach = int(300 / real)
    acc = np.arange(-reach, reach).reshape(-1, 1)
    got = make_gemmlowp_requantizer(site(zero_point, INT8), real)(
        acc.astype(np.float32), slice(0, 1)
    )
    exact = np.clip(rescale(acc, real) + zero_point, -128, 127)
    np.testing.assert_array_equal(got, exact)


def test_gemmlowp_requantizer_of_large_accumulators_saturates() -> None:
    acc = np.array([[2**31 - 1], [-(2**31)]], np.int32)
    requantize = make_gemmlowp_requantizer(site(3, UINT8), 0.001)
    assert requantize(acc, slice(0, 1)).tolist() == [[255], [0]]


@pytest.mark.parametrize("numerator", [1, 3, 37])
def test_float64_requantizer_rounds_every_tie_away_from_zero(numerator: int) -> None:
    real = Fraction(numerator, 128)
    acc = np.arange(-6000, 6000).reshape(-1, 1)
    got = make_float64_requantizer(site(0, INT8), float(real))(acc.astype(np.float32), slice(0, 1))
    exact = [int(abs(real * int(a)) + Fraction(1, 2)) * (1 if a > 0 else -1) for a in acc[:, 0]]
    np.testing.assert_array_equal(got[:, 0], np.clip(exact, -128, 127))


def test_a_clamp_narrows_the_output() -> None:
    acc = np.arange(-300, 300, dtype=np.float32).reshape(-1, 2)
    got = make_gemmlowp_requantizer(site(4, INT8, clamp=(4, 40)), 0.5)(acc, slice(0, 2))
    assert (got.min(), got.max()) == (4, 40)


def test_an_accumulator_that_is_not_contiguous_is_requantized_in_its_own_order() -> None:
    acc = np.arange(-500, 500).reshape(20, 50).T
    requantize = make_gemmlowp_requantizer(site(0, INT8), np.linspace(0.1, 0.4, 20))
    expected = requantize(np.ascontiguousarray(acc).astype(np.int32), slice(0, 20))
    np.testing.assert_array_equal(requantize(acc.astype(np.int32), slice(0, 20)), expected)


def test_single_channels_are_requantized_as_among_all_channels() -> None:
    scales = np.array([0.5, 0.25, 0.125, 1.5])
    acc = np.arange(-600, 600).reshape(-1, 4).astype(np.int32)
    for make in (make_gemmlowp_requantizer, make_float64_requantizer):
        requantize = make(site(2, INT8), scales)
        among = requantize(acc.copy(), slice(0, 4))
        np.testing.assert_array_equal(
            requantize(acc[:, [1, 3]], np.array([1, 3])), among[:, [1, 3]]
        )
