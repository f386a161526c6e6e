"""Activations that become the fused activation of the operator before them: clamps of its integers or floats."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ptq.rewrite.tflite.operations import CLAMPS, FUSED, Operation, OperationList, find_given_bounds

_FUSES = frozenset(
    ["Add", "AveragePool", "Conv", "Gemm", "MatMul", "MaxPool", "Mul", "Sub"]
)  # the last of several outputs has none


def fuse_clamps(listed: OperationList) -> OperationList:
    """The operators with activations fused that keep scale and zero point, and whose input nobody else reads."""
    readers: dict[str, list[Operation]] = {}
    for o in listed.operations:
        for name in filter(None, o.inputs):
            readers.setdefault(name, []).append(o)
    fused: dict[str, Operation] = {}
    skipped: set[str] = set()
    for o in listed.operations:
        after = readers.get(o.outputs[0], []) if len(o.outputs) == 1 else []
        if o.op not in _FUSES or len(after) != 1 or after[0].is_integer != o.is_integer:
            continue
        activation = _name_clamp(listed, after[0])
        if o.op == "MatMul" and not _is_by_matrix(listed, o):
            continue  # BATCH_MATMUL fuses nothing
        same = listed.params.get(o.outputs[0]) == listed.params.get(after[0].outputs[0])
        if activation and same and o.outputs[0] not in listed.outputs:
            attrs = {**o.attrs, FUSED: activation}
            fused[o.name] = replace(o, attrs=attrs, outputs=after[0].outputs)
            skipped.add(after[0].name)
    operations = [fused.get(o.name, o) for o in listed.operations if o.name not in skipped]
    return replace(listed, operations=operations)


def _is_by_matrix(listed: OperationList, o: Operation) -> bool:
    """Whether the second operand is one constant matrix, so that the product is FULLY_CONNECTED."""
    matrix = listed.constants.get(str(o.inputs[1]))
    return matrix is not None and matrix.ndim == 2


def _name_clamp(listed: OperationList, o: Operation) -> str:
    """LiteRT's name of a clamp; empty for any other operator."""
    if o.op not in ("Relu", "Clip"):
        return ""
    if o.op == "Relu":
        return "RELU"
    bounds = find_given_bounds(listed, o)
    if bounds is None:
        return ""
    lo, hi = bounds
    return CLAMPS.get(
        (-np.inf if lo is None else float(lo), np.inf if hi is None else float(hi)), ""
    )
