"""By which factors do the channels of what products read lose the least to rounding?

Channels that are multiplied by something anyway may as well be multiplied by factors that make them alike, which the
rows of the weights take back: one scale then serves all of them well. What that wins on the activations it costs on
the weights, whose rows become unlike, so both errors are estimated, and the factors are those, of a few families,
with which they are least together. After Xiao et al. 2023, "SmoothQuant: Accurate and Efficient Post-Training
Quantization for Large Language Models", whose factors come of one exponent for the whole network.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptq.observers.channel_spread import ChannelSpread

_ACTIVATION_EXPONENTS = (0.0, 0.25, 0.5, 0.75, 1.0)
_WEIGHT_EXPONENTS = (0.0, 0.25, 0.5)
_LEVELS, _SIGNED_LEVELS = 255, 127
_PER_OCTAVE = 4
"""An octave: so coarse that last digits, which the number of threads changes, make no other factors."""
_MIN_RATIO = 2.0**-10  # of the greatest: what is smaller counts as so great

Array = NDArray[np.float64]


def smoothquant_factors(
    spread: ChannelSpread, weight: NDArray[np.float32], kept: NDArray[np.bool_], trust: float
) -> Array:
    """What to multiply each channel by, about 1 in the geometric mean; 0 for those that are not kept.

    Args:
        spread: Of the channels.
        weight: Of all products of the tensor, (channels, sums).
        kept: By channel, whether it is rounded.
        trust: How far a channel reaches: 0 its root mean square, 1 its extremes, which other samples may exceed.
    """
    found = np.zeros(len(kept))
    if not kept.any():
        return found
    least, greatest = (e[kept].astype(np.float64) for e in (spread.least, spread.greatest))
    matrix, square = (
        np.abs(weight[kept].astype(np.float64)),
        spread.sum_of_squares[kept] / spread.count,
    )
    extremes = np.maximum(-least, greatest)
    reach = _clamp_small(np.sqrt(square) ** (1 - trust) * extremes**trust)
    heights = _clamp_small(matrix.max(axis=1))
    best: tuple[float, Array] | None = None
    for a in _ACTIVATION_EXPONENTS:
        for w in _WEIGHT_EXPONENTS:
            tried = heights**w / reach**a
            tried = np.exp2(
                np.rint(_PER_OCTAVE * (np.log2(tried) - np.log2(tried).mean())) / _PER_OCTAVE
            )
            error = _error(tried, least, greatest, square, matrix)
            if best is None or error < best[0]:
                best = error, tried
    assert best is not None
    found[kept] = best[1]
    return found


def _clamp_small(sizes: Array) -> Array:
    most = float(sizes.max())
    return np.maximum(sizes, most * _MIN_RATIO) if most > 0 else np.ones_like(sizes)


def _error(by: Array, least: Array, greatest: Array, square: Array, matrix: Array) -> float:
    """The energy of the sums' error, by rounding the activations and by rounding the weights, times 12."""
    width = max(0.0, float((greatest * by).max())) - min(0.0, float((least * by).min()))
    of_activations = (width / _LEVELS) ** 2 * float((np.square(matrix).sum(axis=1) / by**2).sum())
    steps = (matrix / by[:, None]).max(axis=0) / _SIGNED_LEVELS
    of_weights = float(np.square(steps).sum()) * float((square * by**2).sum())
    return of_activations + of_weights
