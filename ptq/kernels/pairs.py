"""What do u8 × s8 products lose on a processor without VNNI?

AVX2 multiplies adjacent bytes and adds each pair in int16, saturating (VPMADDUBSW), before it widens:

    acc = Σ_k sat16(a[2k] · b[2k] + a[2k+1] · b[2k+1]),     a from 0 to 255, b from −128 to 127

with K padded by a zero to an even number. A pair leaves int16 only where two weights of one sign add up to more
than 128 in magnitude (255 · 129 > 32767), so that few corrections make an exact sum the saturated one, and weights
within ±64 need none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_LARGEST_A = 255
_INT16_MIN, _INT16_MAX = -(2**15), 2**15 - 1


def saturable(b: NDArray[Any]) -> NDArray[np.bool_]:
    """Which pairs of rows of b (K, N) can saturate, for some unsigned bytes a: shape (⌈K/2⌉, N)."""
    first, second = _pairs(b, 0)
    highest = _LARGEST_A * (np.maximum(first, 0) + np.maximum(second, 0))
    lowest = _LARGEST_A * (np.minimum(first, 0) + np.minimum(second, 0))
    can: NDArray[np.bool_] = (highest > _INT16_MAX) | (lowest < _INT16_MIN)
    return can


def excess(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.int64]:
    """What int16 saturation takes from the product of a (M, K), uint8, with b (K, N), int8: shape (M, N)."""
    lost = np.zeros((len(a), b.shape[1]), np.int64)
    a_first, a_second = _pairs(a, 1)
    b_first, b_second = _pairs(b, 0)
    can = saturable(b)
    for pair in np.flatnonzero(can.any(axis=1)):
        columns = np.flatnonzero(can[pair])
        both = np.multiply.outer(a_first[:, pair], b_first[pair, columns])
        both += np.multiply.outer(a_second[:, pair], b_second[pair, columns])
        lost[:, columns] += both - np.clip(both, _INT16_MIN, _INT16_MAX)
    return lost


def _pairs(q: NDArray[Any], axis: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Every first and every second of two neighbours along an axis, a zero appended to an odd number."""
    widths = [(0, 0)] * q.ndim
    widths[axis] = (0, q.shape[axis] % 2)
    wide = np.moveaxis(np.pad(q.astype(np.int32), widths), axis, 0)
    return np.moveaxis(wide[0::2], 0, axis), np.moveaxis(wide[1::2], 0, axis)
