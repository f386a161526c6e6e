"""Oracle: numpy's own broadcasting of one value a channel."""

from __future__ import annotations

import numpy as np
import pytest

from ptq.kernels.channel_broadcast import apply_per_channel, repeat_channels


@pytest.mark.parametrize(
    ("rows", "columns"),
    [(0, 3), (1, 1), (5, 3), (700, 16), (8192, 1), (8193, 1), (3, 9000), (196, 480), (197, 480)],
)
@pytest.mark.parametrize("operation", [np.add, np.multiply])
def test_every_row_meets_its_channel_s_value(rows: int, columns: int, operation: np.ufunc) -> None:
    rng = np.random.default_rng(rows + columns)
    values = rng.normal(0, 1, columns).astype(np.float32)
    before = rng.normal(0, 1, (rows, columns)).astype(np.float32)
    after, place = np.empty_like(before), before.copy()
    apply_per_channel(operation, before, repeat_channels(values), after)
    np.testing.assert_array_equal(after, operation(before, values))
    apply_per_channel(operation, place, repeat_channels(values), place)
    np.testing.assert_array_equal(place, after)
