"""Whether a computed position can be negative: ONNX counts such a one from the end, LiteRT refuses to run it."""

from __future__ import annotations

import numpy as np

from ptq.rewrite.tflite.emitter import Emitter

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
    return _can_be_negative(e, {}, name, _DEEPEST)


def _can_be_negative(e: Emitter, known: dict[str, bool], name: str, depth: int) -> bool:
    """As `can_be_negative`; ``known`` keeps each answer, because operators may share their operands."""
    if name not in known:
        known[name] = _find_sign(e, known, name, depth)
    return known[name]


def _find_sign(e: Emitter, known: dict[str, bool], name: str, depth: int) -> bool:
    array, maker = e.constant(name), e.listed.makers.get(name)
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
    return any(_can_be_negative(e, known, operand, depth - 1) for operand in names)
