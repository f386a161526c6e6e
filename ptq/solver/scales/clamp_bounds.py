"""The real bounds of an activation that clamps."""

from __future__ import annotations

import math

from ptq.core.opspec import Role
from ptq.model.node import constant_of
from ptq.solver.partition.node_precision import QuantizedNode


def clamp_bounds(integer: QuantizedNode) -> tuple[float, float]:
    """The lower and the upper bound of a Relu or Clip; infinite where there is none."""
    if integer.spec.op == "Relu":
        return 0.0, math.inf
    bounds = [-math.inf, math.inf]
    for operand in integer.operands:
        if operand.role is Role.VALUE:
            array = constant_of(operand.value)
            assert array is not None
            bounds[operand.position - 1] = float(array.item())
    return bounds[0], bounds[1]
