"""Case recorded from ONNX Runtime → site; node inputs by position, arrays channels first."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from golden_case import GoldenCase, case_attributes, to_qparams
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.core.types import QuantParams
from ptq.executor.arithmetics import get_arithmetic
from ptq.executor.arithmetics.node_site import Site
from ptq.model.weights.layer_weights import get_matrix_channel_axis

Arrays = Mapping[str, NDArray[Any]]

# Positions among an operator's node inputs: (value, scale, zero point) of each operand, then of the output. A bias
# has no scale and zero point of its own, and an output no value.
_Position = tuple[int | None, int | None, int | None]
_UNARY: list[_Position] = [(0, 1, 2), (None, 3, 4)]
_BINARY: list[_Position] = [(0, 1, 2), (3, 4, 5), (None, 6, 7)]
_POSITIONS: Mapping[str, list[_Position]] = {
    "QLinearConv": [(0, 1, 2), (3, 4, 5), (8, None, None), (None, 6, 7)],
    "QGemm": [(0, 1, 2), (3, 4, 5), (6, None, None), (None, 7, 8)],
    "QLinearMatMul": _BINARY,
    "QLinearAdd": _BINARY,
    "QLinearMul": _BINARY,
    "QLinearAveragePool": _UNARY,
    "QLinearGlobalAveragePool": _UNARY,
    "QLinearSigmoid": _UNARY,
    "QLinearLeakyRelu": _UNARY,
    "QLinearSoftmax": _UNARY,
    "QLinearWhere": [(0, None, None), (1, 2, 3), (4, 5, 6), (None, 7, 8)],
    "QuantizeLinear": [(0, None, None), (None, 1, 2)],
    "DequantizeLinear": [(0, 1, 2), (None, None, None)],
}
_SPATIAL_OPS = ("QLinearConv", "QLinearAveragePool", "QLinearGlobalAveragePool")


def recorded_arithmetic(case: Mapping[str, Any]) -> str:
    """The arithmetic of the version that a case names as its runtime, for example ``ort@1.31``.

    A case without a runtime was recorded from the installed version.
    """
    found = re.match(r"onnxruntime (\d+\.\d+)", str(case.get("runtime", "")))
    return f"ort@{found[1]}" if found else "ort"


def from_ort_case(
    case: Mapping[str, Any], arrays: Arrays, arithmetic: str = ""
) -> list[GoldenCase]:
    """Convert a case into one site.

    Args:
        case: The case's entry in the index.
        arrays: Its arrays by name.
        arithmetic: The arithmetic; empty for that of the recorded version.

    Raises:
        UnsupportedError: The operator is unknown.
        UsageError: The arithmetic is unknown.
    """
    arithmetic = arithmetic or recorded_arithmetic(case)
    kernels = get_arithmetic(arithmetic).kernels
    op, names, attrs = str(case["op"]), list(case["node_inputs"]), case_attributes(case)
    if int(attrs.pop("opset", 13)) < 13:
        attrs["axis"] = attrs.get("axis", -1) % arrays[names[0]].ndim
        attrs["together"] = True
    last = bool(attrs.pop("channels_last", 0))
    *operands, output = _positions(op, len(names))

    def at(position: int | None) -> NDArray[Any] | None:
        return None if position is None or position >= len(names) else arrays.get(names[position])

    values = [at(value) for value, _, _ in operands]
    axis = int(attrs.get("axis", 0))
    quantization: list[QuantParams | None] = []
    for index, (value, (_, scale, zero)) in enumerate(zip(values, operands, strict=True)):
        along = axis if op == "DequantizeLinear" else _weight_axis(op, index, value, attrs)
        dtype = None if value is None else value.dtype
        quantization.append(to_qparams(at(scale), at(zero), dtype, along))
    zero_point = at(output[2])
    input_dtype = next((q.qtype.dtype for q in quantization if q is not None), np.uint8)
    output_dtype = input_dtype if zero_point is None else zero_point.dtype
    output_params = to_qparams(at(output[1]), zero_point, output_dtype, axis)

    first = op in _SPATIAL_OPS and not last
    if first:
        values[:2] = [None if v is None else np.moveaxis(v, 1, -1) for v in values[:2]]
    runtime = set(case.get("runtime_inputs", names[:1]))
    constants = tuple(
        None if position is None or position >= len(names) or names[position] in runtime else value
        for value, (position, _, _) in zip(values, operands, strict=True)
    )
    name = "Gemm" if op == "QGemm" else op.removeprefix("QLinear")
    site = Site(name, attrs, tuple(quantization), (output_params,), constants)
    return [GoldenCase(arithmetic, site, tuple(values), arrays["output"], kernels.get(name), first)]


def _positions(op: str, count: int) -> list[_Position]:
    if op == "QLinearConcat":
        return [*((i, i + 1, i + 2) for i in range(2, count, 3)), (None, 0, 1)]
    if op not in _POSITIONS:
        raise UnsupportedError(f"cases of {op} cannot be read; leave out this operator")
    return _POSITIONS[op]


def _weight_axis(op: str, index: int, value: NDArray[Any] | None, attrs: Mapping[str, Any]) -> int:
    """Channel axis of a weight: axis 0 of a convolution, the columns of a matrix."""
    if index != 1 or value is None or op == "QLinearConv":
        return 0
    return get_matrix_channel_axis(attrs, value.ndim)
