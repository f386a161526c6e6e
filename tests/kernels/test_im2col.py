"""Windows as rows, and whole products, against loops over positions and Python's integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ptq.core.errors import ModelError
from ptq.kernels.im2col import im2col, multiply_exactly


@pytest.mark.parametrize(
    "geometry",
    [
        {},
        {"strides": (2, 1), "pads": (1, 0, 0, 2)},
        {"dilations": (1, 2), "pads": (0, 1, 1, 1)},
        {"strides": (2, 2), "auto_pad": "SAME_UPPER"},
    ],
)
def test_a_row_is_a_window_position_by_position_and_channel_by_channel(
    geometry: dict[str, Any],
) -> None:
    x = np.random.default_rng(0).integers(0, 99, (2, 6, 5, 4))
    rows, sizes = im2col(x, (3, 2), 2, -7, **geometry)
    strides, dilations = geometry.get("strides", (1, 1)), geometry.get("dilations", (1, 1))
    begin = geometry.get("pads", (0, 0, 0, 0))[:2]
    assert rows.shape == (2, 2 * sizes[0] * sizes[1], 3 * 2 * 2)

    def at(n: int, y: int, z: int, c: int) -> int:
        inside = 0 <= y < 6 and 0 <= z < 5
        return int(x[n, y, z, c]) if inside else -7

    for g, n, i, j in np.ndindex(2, 2, *sizes):
        expected = [
            at(
                n,
                i * strides[0] - begin[0] + u * dilations[0],
                j * strides[1] - begin[1] + v * dilations[1],
                2 * g + c,
            )
            for u, v, c in np.ndindex(3, 2, 2)
        ]
        assert rows[g, (n * sizes[0] + i) * sizes[1] + j].tolist() == expected


def test_channels_that_do_not_divide_into_the_groups_are_refused() -> None:
    with pytest.raises(ModelError, match="3 channels"):
        im2col(np.zeros((1, 2, 2, 3)), (1, 1), 2, 0)


def test_a_product_of_large_integers_is_whole() -> None:
    a = np.array([[2**26 - 1, 3]])
    assert multiply_exactly(a, np.array([[2**26 - 1], [1]])).item() == (2**26 - 1) ** 2 + 3
