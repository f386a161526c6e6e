"""Versions of LiteRT's builtin operators, by the type of their first activation and their options.

Facts from LiteRT's own table (op_version.cc): a reader refuses a file whose operators are newer than it knows, so
each operator has the oldest version that says what it does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_INT8, _INT16 = (np.dtype(name) for name in ("int8", "int16"))

_SECOND_IN_INT8 = frozenset(
    [
        "ABS",
        "ADD",
        "ARG_MAX",
        "ARG_MIN",
        "AVERAGE_POOL_2D",
        "BATCH_MATMUL",
        "BATCH_TO_SPACE_ND",
        "CONCATENATION",
        "DEQUANTIZE",
        "EQUAL",
        "EXP",
        "GATHER",
        "GELU",
        "GREATER",
        "GREATER_EQUAL",
        "L2_NORMALIZATION",
        "LESS",
        "LESS_EQUAL",
        "LOG",
        "LOGISTIC",
        "LOG_SOFTMAX",
        "MAXIMUM",
        "MAX_POOL_2D",
        "MEAN",
        "MINIMUM",
        "MIRROR_PAD",
        "MUL",
        "NOT_EQUAL",
        "PAD",
        "PADV2",
        "REDUCE_MAX",
        "REDUCE_MIN",
        "RELU",
        "RELU6",
        "RESIZE_BILINEAR",
        "RESIZE_NEAREST_NEIGHBOR",
        "SLICE",
        "SOFTMAX",
        "SPACE_TO_BATCH_ND",
        "SPACE_TO_DEPTH",
        "SPLIT",
        "SPLIT_V",
        "SQRT",
        "STRIDED_SLICE",
        "SUB",
        "SUM",
        "TANH",
        "TRANSPOSE",
        "TRANSPOSE_CONV",
    ]
)

_INT8_VERSIONS: Mapping[str, int] = {
    **dict.fromkeys(_SECOND_IN_INT8, 2),
    "BROADCAST_TO": 3,
    "CAST": 3,
    "CONV_2D": 3,
    "DEPTHWISE_CONV_2D": 3,
    "FULLY_CONNECTED": 4,
}
"""Version with int8 activations, where that is not 1.

LiteRT's table also gives DEPTH_TO_SPACE and TILE newer versions there. Its reference kernels have version 1
alone, which takes int8 too.
"""
_INT16_VERSIONS: Mapping[str, int] = {
    **dict.fromkeys(
        [
            "ADD", "AVERAGE_POOL_2D", "BATCH_MATMUL", "CONCATENATION", "DEQUANTIZE", "LOGISTIC", "MAX_POOL_2D",
            "MEAN", "MIRROR_PAD", "PAD", "PADV2", "REDUCE_MAX", "REDUCE_MIN", "RELU", "RELU6", "SOFTMAX", "TANH",
        ],
        3,
    ),
    **dict.fromkeys(
        [
            "CONV_2D", "EQUAL", "GATHER", "MAXIMUM", "MINIMUM", "MUL", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR",
            "SLICE", "SPLIT",
        ],
        4,
    ),
    **dict.fromkeys(["DEPTHWISE_CONV_2D", "SUB", "TRANSPOSE"], 5),
    "BROADCAST_TO": 3,
    "EXP": 2,
    "FULLY_CONNECTED": 7,
    "LEAKY_RELU": 2,
    "QUANTIZE": 2,
    "SPLIT_V": 2,
    "STRIDED_SLICE": 4,
    "TRANSPOSE_CONV": 3,
}  # fmt: skip
"""Version with int16 activations, where that is not 1."""
_OTHER_VERSIONS: Mapping[tuple[str, str], int] = {
    ("CAST", "float16"): 5,
    ("DEQUANTIZE", "float16"): 3,
    ("GATHER", "bool"): 3,
    ("TRANSPOSE", "bool"): 3,
}
_OLDEST_VERSIONS: Mapping[str, int] = {"BROADCAST_TO": 2}
"""Version that LiteRT's kernels begin with, where that is not 1."""
_MISSING_TYPES: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(["ABS", "DIV", "POW", "SIGN"], frozenset(["int64"])),
    **dict.fromkeys(
        ["BATCH_MATMUL", "RELU", "RELU6", "RELU_N1_TO_1", "SQRT"], frozenset(["int32", "int64"])
    ),
}
"""Types of the first activation that no kernel takes; most of these files load, and fail when they run."""
_TAKE_FLOAT64 = frozenset(
    [
        "BROADCAST_TO", "CAST", "MIRROR_PAD", "RESHAPE", "SELECT_V2", "SIGN", "SLICE", "STRIDED_SLICE", "TILE",
        "TRANSPOSE",
    ]
)  # fmt: skip
"""Operators whose kernels, both the reference and the default ones, take float64; no others do."""
_ACTIVATION_AT: Mapping[str, int] = {"SPLIT": 1, "TRANSPOSE_CONV": 2, "SELECT_V2": 1}
"""Position of the first activation, where that is not 0."""
_POSITION_OF_BIAS: Mapping[str, int] = {"FULLY_CONNECTED": 2, "TRANSPOSE_CONV": 3}


_RANK_VERSIONS: Mapping[str, Mapping[int, int]] = {
    "DIV": {5: 2},
    "MAXIMUM": {5: 3},
    "MINIMUM": {5: 3},
    "PAD": {5: 4},
    "PADV2": {5: 4},
    "SLICE": {5: 5},
    "STRIDED_SLICE": {5: 4},
    "SUB": {5: 3},
    "TRANSPOSE": {5: 4, 6: 6},
}
"""Version from a number of axes on."""


def find_missing_type(builtin: str, types: Sequence[np.dtype[Any] | None]) -> str:
    """The type of the first activation if no kernel of an operator takes it; empty if one does."""
    kind = _find_activation_type(builtin, types)
    if kind is None:
        return ""
    is_missing = kind.name in _MISSING_TYPES.get(builtin, ()) or (
        kind == np.float64 and builtin not in _TAKE_FLOAT64
    )
    return kind.name if is_missing else ""


def _find_activation_type(
    builtin: str, types: Sequence[np.dtype[Any] | None]
) -> np.dtype[Any] | None:
    position = _ACTIVATION_AT.get(builtin, 0)
    return types[position] if position < len(types) else None


def find_version(
    builtin: str,
    types: Sequence[np.dtype[Any] | None],
    fields: Mapping[str, Any],
    rank: int,
) -> int:
    """The version of an operator.

    Args:
        builtin: Its name.
        types: Element types of its inputs; None for an absent one.
        fields: Its options by their names in the schema.
        rank: The most axes that one of its inputs has.
    """
    kind = _find_activation_type(builtin, types)
    version = _OLDEST_VERSIONS.get(builtin, 1)
    if kind == _INT8:
        version = _INT8_VERSIONS.get(builtin, 1)
    elif kind == _INT16:
        version = _INT16_VERSIONS.get(builtin, 1)
    elif kind is not None:
        version = _OTHER_VERSIONS.get((builtin, kind.name), version)
    bias = _POSITION_OF_BIAS.get(builtin)
    has_bias = bias is not None and len(types) > bias and types[bias] is not None
    if builtin == "FULLY_CONNECTED":
        version = max(version, 6 if not has_bias else 5 if fields.get("keepNumDims") else 1)
    if builtin == "TRANSPOSE_CONV":
        version = max(version, 3 if has_bias else 1)
    if builtin == "RESIZE_BILINEAR" and fields.get("halfPixelCenters"):
        version = max(version, 3)
    if builtin == "RESIZE_NEAREST_NEIGHBOR" and (
        fields.get("halfPixelCenters") or fields.get("alignCorners")
    ):
        version = max(version, 3)
    return max(version, *(v for r, v in _RANK_VERSIONS.get(builtin, {}).items() if rank >= r), 1)
