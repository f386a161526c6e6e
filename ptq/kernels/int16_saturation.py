"""Saturation of pairs of u8 × s8 products in int16, on x86 processors without VNNI.

AVX2 multiplies adjacent bytes and adds each pair in int16 with saturation (VPMADDUBSW), before it widens:

    acc = Σ_k sat16(a[2k] · b[2k] + a[2k+1] · b[2k+1]),     a from 0 to 255, b from −128 to 127

K is in the order of the additions, and padded by a zero to an even number. A pair can leave int16 only if two weights
of one sign add up to more than 128 in magnitude (255 · 129 > 32767). So few corrections turn an exact sum into the
saturated sum. Weights without a pair above 128 need none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_UINT8_MAX = 255
_INT16_MIN, _INT16_MAX = -(2**15), 2**15 - 1
# Weights that are processed in one piece.
_CHUNK_WEIGHTS = 2**22
MAX_PAIR_SUM = _INT16_MAX // _UINT8_MAX
"""Largest magnitude, 128, of the sum of two neighbouring weights of one sign that never saturates."""


def find_largest_pair_sum(b: NDArray[Any]) -> NDArray[Any]:
    """Return the largest magnitude of the sum of two neighbours of one sign in b (…, K, N): shape (…, N)."""
    few = max(1, _CHUNK_WEIGHTS // max(1, b[..., 0].size)) if b.shape[-1] else 1
    parts = [_find_chunk_pair_sum(b[..., i : i + few]) for i in range(0, max(1, b.shape[-1]), few)]
    return np.concatenate(parts, axis=-1)


def _find_chunk_pair_sum(b: NDArray[Any]) -> NDArray[Any]:
    first, second = _split_pairs(b, -2)
    highest = np.maximum(first, 0)
    highest += np.maximum(second, 0)
    lowest = np.minimum(first, 0)
    lowest += np.minimum(second, 0)
    either: NDArray[Any] = np.maximum(
        highest.max(axis=-2, initial=0), -lowest.min(axis=-2, initial=0)
    )
    return either


def clip_pair_sums(b: NDArray[Any]) -> NDArray[Any]:
    """Return integers b (…, K, N) of magnitude at most 128, changed so that no pair saturates.

    In a pair that could saturate, the integer of larger magnitude is moved towards zero.
    """
    first, second = _split_pairs(b, -2)
    over = np.where(first * second > 0, np.abs(first) + np.abs(second) - MAX_PAIR_SUM, 0)
    over = np.maximum(over, 0) * np.sign(first)
    earlier = np.abs(first) >= np.abs(second)
    found = np.empty_like(b)
    found[..., 0::2, :] = first - np.where(earlier, over, 0)
    found[..., 1::2, :] = (second - np.where(earlier, 0, over))[..., : b.shape[-2] // 2, :]
    return found


def find_saturable_pairs(b: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which pairs of rows of b (K, N) saturate for some unsigned bytes a: shape (⌈K/2⌉, N)."""
    first, second = _split_pairs(b, 0)
    highest = _UINT8_MAX * (np.maximum(first, 0) + np.maximum(second, 0))
    lowest = _UINT8_MAX * (np.minimum(first, 0) + np.minimum(second, 0))
    can: NDArray[np.bool_] = (highest > _INT16_MAX) | (lowest < _INT16_MIN)
    return can


def compute_saturation_loss(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.int64]:
    """Return the exact minus the saturated product of a (M, K), uint8, with b (K, N), int8: shape (M, N)."""
    lost = np.zeros((len(a), b.shape[1]), np.int64)
    a_first, a_second = _split_pairs(a, 1)
    b_first, b_second = _split_pairs(b, 0)
    can = find_saturable_pairs(b)
    for pair in np.flatnonzero(can.any(axis=1)):
        columns = np.flatnonzero(can[pair])
        both = np.multiply.outer(a_first[:, pair], b_first[pair, columns])
        both += np.multiply.outer(a_second[:, pair], b_second[pair, columns])
        lost[:, columns] += both - np.clip(both, _INT16_MIN, _INT16_MAX)
    return lost


def _split_pairs(q: NDArray[Any], axis: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return first and second neighbours of each pair along an axis; an odd number is padded by a zero."""
    if q.dtype.kind != "f":
        q = q.astype(np.int32)
    if q.shape[axis] % 2:
        widths = [(0, 0)] * q.ndim
        widths[axis] = (0, 1)
        q = np.pad(q, widths)
    wide = np.moveaxis(q, axis, 0)
    return np.moveaxis(wide[0::2], 0, axis), np.moveaxis(wide[1::2], 0, axis)
