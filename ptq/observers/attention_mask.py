"""Detection of an additive attention mask in a tensor: −10⁴ or −FLT_MAX at masked positions, before a Softmax.

The values then lie in two clusters. A range over both clusters is so wide that one LSB exceeds the differences within
the upper cluster. A range over the upper cluster alone would let masked positions take part in the Softmax.
"""

from __future__ import annotations

import math

import numpy as np

from ptq.observers.histogram_cells import build_histogram_cells
from ptq.observers.stats import TensorStats

MIN_WIDTH_RATIO = 64
"""Ratio of the whole width to the upper cluster's width, above which that cluster keeps under four of 255 LSBs."""

EXP_UNDERFLOW = -math.log(np.finfo(np.float32).tiny)
"""Distance below the maximum, 87.3, at which the exponential is no longer a normal float32.

A value so far below adds nothing to the Softmax's sum.
"""


def is_masked(stats: TensorStats) -> bool:
    """Whether the values lie in two clusters, the lower so far below that a Softmax turns it into zeros."""
    if not stats.count:
        return False
    cells = build_histogram_cells(stats)
    gaps = cells.lo[1:] - cells.hi[:-1]
    if not gaps.size:
        return False
    if gaps.max() < EXP_UNDERFLOW:
        return False
    after = int(np.argmax(gaps)) + 1
    upper = float(cells.hi[-1] - cells.lo[after])
    return 0 < upper * MIN_WIDTH_RATIO < float(cells.hi[-1] - cells.lo[0])
