"""Which values are better stored channels last, and which flattened values may have their features in any order."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ptq.rewrite.tflite.measured_shapes import MeasuredShapes
from ptq.rewrite.tflite.operations import Operation, OperationList
from ptq.rewrite.tflite.orders import KEEPS_ORDER, is_image_operator

_FLATTENING = ("Flatten", "Reshape")
KEEPS_FEATURES = ("Relu", "Clip", "QuantizeLinear", "DequantizeLinear", "Requantize")
"""Functions of single values that may stand between a flattened value and its matrices."""


def find_values_preferring_last(listed: OperationList, measured: MeasuredShapes) -> frozenset[str]:
    """Names of values that an image operator reads, directly or through operators that keep the order."""
    found: set[str] = set()
    for o in reversed(listed.operations):
        is_spatial = _is_image_operator(o, measured)
        if is_spatial or (o.op in KEEPS_ORDER and any(name in found for name in o.outputs)):
            read = o.inputs[:1] if is_spatial else o.inputs
            found.update(n for n in read if n and len(measured.shapes.get(n, ())) > 2)
    return frozenset(found)


def _is_image_operator(o: Operation, measured: MeasuredShapes) -> bool:
    return bool(o.inputs) and is_image_operator(
        o.op, len(measured.shapes.get(o.inputs[0] or "", ()))
    )


def find_values_stored_last(
    listed: OperationList, measured: MeasuredShapes, images: Collection[str]
) -> set[str]:
    """Names of values that image operators write, or that operators that keep the order pass on.

    Args:
        listed: The operators.
        measured: Shapes of all values.
        images: Names of values that are better stored channels last; inputs among them are.
    """
    found = {name for name in listed.inputs if name in images}
    for o in listed.operations:
        passes = o.op in KEEPS_ORDER and any(name in found for name in o.inputs)
        if _is_image_operator(o, measured) or passes:
            found.update(n for n in o.outputs if len(measured.shapes.get(n, ())) > 2)
    return found


def find_free_features(listed: OperationList) -> frozenset[str]:
    """Names of flattened values whose only readers are constant matrices, which take features in any order."""
    readers: dict[str, list[Operation]] = {}
    for o in listed.operations:
        for name in o.inputs:
            if name:
                readers.setdefault(name, []).append(o)
    flattened = (o.outputs[0] for o in listed.operations if o.op in _FLATTENING)
    return frozenset(name for name in flattened if _is_only_multiplied(name, readers, listed))


def _is_only_multiplied(
    name: str, readers: dict[str, list[Operation]], listed: OperationList
) -> bool:
    """Whether all readers multiply the value by a constant matrix, after functions of single values at most."""
    if name in listed.outputs:
        return False
    found = readers.get(name, [])
    for o in found:
        if o.op in KEEPS_FEATURES and o.inputs[0] == name:
            if not _is_only_multiplied(o.outputs[0], readers, listed):
                return False
        elif (
            o.op not in ("Gemm", "MatMul")
            or o.inputs[0] != name
            or np.ndim(listed.constants.get(o.inputs[1] or "", 0)) != 2
        ):
            return False
    return bool(found)
