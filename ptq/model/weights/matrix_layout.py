"""Layout of the right operand of a Gemm or MatMul, and depthwise weights, from attributes and shapes alone.

Gemm, QGemm with transB                            (outputs, inputs)
Gemm, QGemm without transB                         (inputs, outputs)
MatMul, QLinearMatMul, MatMulIntegerToFloat        (…, inputs, outputs), or (inputs,) for one output
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray


def get_matrix_channel_axis(attributes: Mapping[str, Any], rank: int) -> int:
    """Axis of the right operand of a Gemm or MatMul along which its output channels lie."""
    return 0 if attributes.get("transB") else rank - 1


def view_input_output_matrix(weight: NDArray[Any], attributes: Mapping[str, Any]) -> NDArray[Any]:
    """View of the right operand of a Gemm or MatMul with shape (…, inputs, outputs).

    The function is its own inverse: it also brings such a matrix back into the node's layout.
    """
    return weight.T if attributes.get("transB") else weight


def view_columns(weight: NDArray[Any], attributes: Mapping[str, Any]) -> NDArray[Any]:
    """View of the right operand of a Gemm or MatMul as columns (…, inputs, outputs); a vector is one column."""
    matrix = view_input_output_matrix(weight, attributes)
    return matrix[:, None] if matrix.ndim == 1 else matrix


def is_single_channel(shape: Sequence[int | None], groups: int) -> bool:
    """Whether each group of a Conv has one output and one input channel; the shape starts with outputs and inputs."""
    return (*shape[:2],) == (groups, 1)
