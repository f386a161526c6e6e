"""Whether a computed position can be negative: ONNX counts such a one from the end, LiteRT refuses to run it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ptq.rewrite.tflite.emitter import Emitter
from ptq.rewrite.tflite.operations import Operation

_NEVER = frozenset(["Abs", "ArgMax", "ArgMin", "Exp", "Relu", "Sigmoid"])
_AS_FIRST_OPERAND = frozenset(
    [
        "Cast", "Ceil", "CumSum", "Expand", "Flatten", "Floor", "Gather", "Identity", "ReduceMax", "ReduceMean",
        "ReduceMin", "ReduceProd", "ReduceSum", "Reshape", "Round", "Slice", "Split", "Squeeze", "Tile", "Transpose",
        "Unsqueeze",
    ]
)  # fmt: skip
"""Operators whose result is negative only if their first operand is."""
_AS_ANY_OPERAND = frozenset(["Add", "Clip", "Concat", "Div", "Max", "Min", "Mul", "Sum", "Where"])
"""Operators whose result is negative only if one of their operands is."""
_DEEPEST = 64
"""Operators behind one another that are looked at; behind more of them a value counts as negative."""


def can_be_negative(e: Emitter, name: str) -> bool:
    """Whether integers can be negative. Integers that are an input of the model count as positions from the start."""
    makers = {output: o for o in e.listed.operations for output in o.outputs}
    return _can_be_negative(e, makers, name, _DEEPEST)


def _can_be_negative(e: Emitter, makers: Mapping[str, Operation], name: str, depth: int) -> bool:
    array, maker = e.constant(name), makers.get(name)
    if e.dtype(name).kind == "b":
        return False
    if array is not None:
        return bool(np.any(array < 0))
    if maker is None:
        return e.dtype(name).kind == "f"
    if maker.op in _NEVER:
        return False
    names = [operand for operand in maker.inputs if operand is not None]
    if maker.op in _AS_FIRST_OPERAND:
        names = names[:1]
    elif maker.op not in _AS_ANY_OPERAND:
        return True
    if maker.is_integer or not depth:
        return True
    return any(_can_be_negative(e, makers, operand, depth - 1) for operand in names)
