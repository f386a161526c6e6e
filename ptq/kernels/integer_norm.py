"""Standardization in integers alone: subtract the mean, divide by the standard deviation.

Over n integers q (the zero point cancels, and so does the scale except for eps), with d = n·q − Σq:

    x̂ = (q − mean) / sqrt(var + eps / S²) = d / sqrt(V + n²·eps / S²),      V = n·Σq² − (Σq)²

V is exact in int64 for n up to 2^18: V ≤ n²·255²/4 < 2^50. The radicand has up to 24 fractional bits for eps. It is
shifted below 2^31 by an even number of bits, and `inverse_sqrt` gives the inverse of its root.

Error bound: |x̂| < sqrt(n) ≤ 2^9. The result, in Q11.20, has an error of at most 2^-18·|x̂| + 2^-20: the relative
2^-19 of the inverse root, and the roundings of one product.
"""

from __future__ import annotations

import math

import numpy as np

from ptq.kernels.fixed_point import Int64, inverse_sqrt, multiply

FRACTION_BITS = 20
MAX_COUNT = 2**18
"""Largest n."""

_RADICAND_BITS = 60
_MAX_EPSILON_BITS = 24


def standardize(q: Int64, axes: tuple[int, ...], epsilon: float) -> Int64:
    """Return x̂ over the axes in Q11.20; ``epsilon`` is eps / S², in units of squared integers."""
    n = math.prod(q.shape[axis] for axis in axes)
    total = q.sum(axis=axes, keepdims=True)
    spread = n * (q * q).sum(axis=axes, keepdims=True) - total * total
    added = min(n * n * epsilon, 2.0**_RADICAND_BITS)
    free = _RADICAND_BITS - max(2 * n.bit_length() + 14, math.frexp(added)[1])
    fraction = min(max(free, 0), _MAX_EPSILON_BITS) // 2 * 2
    radicand = (spread << fraction) + round(math.ldexp(added, fraction))
    # frexp's exponent is the bit length, or one more if the float64 is rounded up.
    excess = np.maximum(np.frexp(radicand.astype(np.float64))[1].astype(np.int64) - 30, 0)
    halves = (excess + 1) // 2
    multiplier, shift = inverse_sqrt(radicand >> (2 * halves))
    return multiply(n * q - total, multiplier, shift - halves + fraction // 2 + FRACTION_BITS)
