"""Sums against Python's unbounded integers."""

from __future__ import annotations

import numpy as np
import pytest

from ptq.kernels.axis_sums import sum_axes


@pytest.mark.parametrize("axes", [None, (0,), (1, 2), (-1,), (0, 1, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_sums_along_axes_and_their_count(axes: tuple[int, ...] | None, keepdims: bool) -> None:
    q = np.random.default_rng(0).integers(0, 256, (3, 4, 5)).astype(np.uint8)
    total, count = sum_axes(q, axes, keepdims)
    expected = q.astype(object).sum(axis=axes, keepdims=keepdims)
    np.testing.assert_array_equal(total, expected)
    assert count * np.size(total) == q.size


def test_a_sum_beyond_int32_is_exact() -> None:
    q = np.broadcast_to(np.uint8(255), (2**24,))
    assert sum_axes(q, None, keepdims=False) == (255 * 2**24, 2**24)
