"""The real bounds of an activation that clamps, and whether the range of its output's integers keeps them."""

from __future__ import annotations

import math

from ptq.core.types import QuantParams
from ptq.model.node import find_clip_bounds
from ptq.solver.partition.node_precision import QuantizedNode

_FOLD_TOLERANCE_LSB = 0.5 + 1e-4
"""How far the range of the integers may exceed the bounds of a folded activation.

The range [-1, 1] in 255 LSB puts both ends half an LSB outside; 1e-4 is for float rounding.
"""


def get_covered_range(params: QuantParams) -> tuple[float, float]:
    """The real values of the lowest and the highest integer, of parameters per tensor."""
    scale, zero = float(params.scale), int(params.zero_point)
    return scale * (params.qtype.lo - zero), scale * (params.qtype.hi - zero)


def can_fold(quantized: QuantizedNode, output: QuantParams) -> bool:
    """Whether the output's integers do what the activation does: its bounds contain 0 and their range."""
    lo, hi = find_clamp_bounds(quantized)
    lowest, highest = get_covered_range(output)
    tolerance = float(output.scale) * _FOLD_TOLERANCE_LSB
    return lo <= 0 <= hi and lowest >= lo - tolerance and highest <= hi + tolerance


def find_clamp_bounds(quantized: QuantizedNode) -> tuple[float, float]:
    """The lower and the upper bound of a Relu or Clip; infinite where there is none."""
    if quantized.spec.op == "Relu":
        return 0.0, math.inf
    bounds = find_clip_bounds(quantized.node)
    assert bounds is not None  # a Clip that computes a bound stays float
    return bounds
