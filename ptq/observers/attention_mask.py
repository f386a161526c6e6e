"""Was a mask added to a tensor before its Softmax: −10⁴ or −FLT_MAX where nothing shall be seen?

A range over both heaps of values leaves 8 bits no step for the differences that count; one over the upper heap
alone would let the masked values be seen.
"""

from __future__ import annotations

import math

import numpy as np

from ptq.observers.histogram_cells import histogram_cells
from ptq.observers.stats import TensorStats

MIN_WIDTH_RATIO = 64
"""The upper heap keeps fewer than four of 255 steps where the whole is so many times as wide."""

EXP_UNDERFLOW = -math.log(np.finfo(np.float32).tiny)
"""So far below the largest, 87.3, an exponential is no normal number: what is masked has no share in the sum."""


def is_masked(stats: TensorStats) -> bool:
    """Whether the values lie in two heaps, the lower so far below that Softmax makes zeros of it."""
    if not stats.count:
        return False
    cells = histogram_cells(stats)
    gaps = cells.lo[1:] - cells.hi[:-1]
    if not gaps.size:
        return False
    if gaps.max() < EXP_UNDERFLOW:
        return False
    after = int(np.argmax(gaps)) + 1
    upper = float(cells.hi[-1] - cells.lo[after])
    return 0 < upper * MIN_WIDTH_RATIO < float(cells.hi[-1] - cells.lo[0])
