"""Minimum and maximum of each channel; the oracle is numpy."""

import numpy as np
import pytest

from ptq.core.errors import StatsError
from ptq.observers.channel_range import find_channel_extremes


@pytest.mark.parametrize("axis", [1, -3])
def test_extremes_of_channels_are_those_of_the_finite_values(axis: int) -> None:
    x = np.random.default_rng(0).normal(size=(6, 3, 4, 4)).astype(np.float32)
    x[0, 1, 0, 0] = np.nan
    x[1, 2, 0, 0] = -np.inf
    lo, hi = find_channel_extremes(x, axis)
    finite = np.where(np.isfinite(x), x, np.nan)
    np.testing.assert_array_equal(lo, np.nanmin(finite, axis=(0, 2, 3)))
    np.testing.assert_array_equal(hi, np.nanmax(finite, axis=(0, 2, 3)))


def test_a_channel_without_finite_values_has_no_range() -> None:
    lo, hi = find_channel_extremes(np.array([[1.0, np.nan]], np.float32), 1)
    assert (lo.tolist(), hi.tolist()) == ([1.0, np.inf], [1.0, -np.inf])


def test_a_missing_axis_is_an_error() -> None:
    with pytest.raises(StatsError, match="has no axis 1"):
        find_channel_extremes(np.zeros(3, np.float32), 1)
