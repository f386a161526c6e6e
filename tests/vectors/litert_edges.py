"""Cases at the edges of LiteRT's rules: ties, scales beside powers of two, and results beyond int16 or int32.

They are tuples as of ``make.litert_cases``; the last field is the arithmetic that they are recorded for, or empty for
both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Edge = tuple[str, dict[str, Any], list[dict[str, Any]], Any, Any, str]

_WIDE_UNIT = 2.0**-15


def _given(
    name: str, value: Any, scale: float, zero: int = 0, role: str = "input"
) -> dict[str, Any]:
    scales = [float(np.float32(scale))]
    return {"name": name, "role": role, "value": value, "scale": scales, "zero": [zero]}


def _every(step: int = 1, dtype: Any = np.int8) -> Any:
    info = np.iinfo(dtype)
    return np.arange(info.min, info.max + 1, step).astype(dtype).reshape(1, -1)


def _functions_near_powers_of_two() -> list[Edge]:
    """|log2(scale) − k| is 0.0006 and 0.0011; LiteRT takes the first for a power of two."""
    return [
        (op, {}, [_given("input", _every(67, np.int16), 2.0**k * near)], _WIDE_UNIT, 0, "")
        for op in ("LOGISTIC", "TANH")
        for k in (-12, -11)
        for near in (1.0004, 1.00075)
    ]


def _fused_clamps_at_ties() -> list[Edge]:
    """6 / scale is 5.5 steps and 1 / scale 0.5: XNNPACK adds the zero point before it rounds to even."""
    six, one = float(np.float32(12 / 11)), 2.0
    window = {"stride_h": 1, "stride_w": 1, "padding": "VALID"}
    image = {"filter_h": 1, "filter_w": 1, **window}
    x = _given("input", _every(), six, -9)
    pixels = _given("input", _every().reshape(1, 16, 16, 1), six, -9)
    matrix = _given("weights", np.full((1, 1), 100, np.int8), 0.02, role="const")
    tap = _given("filter", np.full((1, 1, 1, 1), 100, np.int8), 0.02, role="const")
    rows = {**x, "value": _every().reshape(-1, 1)}
    dilated = {"dilation_h": 1, "dilation_w": 1, **window}
    pair = [{**x, "name": f"input{n}"} for n in (1, 2)]
    relu6, both = {"activation": "RELU6"}, {"activation": "RELU_N1_TO_1"}
    return [
        ("FULLY_CONNECTED", relu6, [rows, matrix], six, -9, ""),
        ("FULLY_CONNECTED", both, [rows, matrix], one, 0, ""),
        ("CONV_2D", dilated | relu6, [pixels, tap, _given("bias", np.zeros(1, np.int32), six * 0.02,
                                                          role="const")], six, -9, ""),
        ("ADD", relu6, pair, six, 5, ""),
        ("MUL", both, pair, one, 0, ""),
        ("MAX_POOL_2D", image | relu6, [pixels], six, -9, ""),
        ("AVERAGE_POOL_2D", image | relu6, [pixels], six, -9, ""),
        ("RELU6", relu6, [x], six, -9, ""),
    ]  # fmt: skip


def _sums() -> list[Edge]:
    """Sums of XNNPACK; LiteRT's reference kernel reads int8 as uint8."""
    x = _given("input", _every().reshape(1, 8, 32), 0.0589, 83)
    axis = {"name": "axis", "role": "const", "value": np.int32([1]), "scale": [], "zero": []}
    attributes = {"axis": [1], "keep_dims": False}
    return [
        ("SUM", attributes, [x, axis], scale, -33, "litert-xnnpack") for scale in (0.3061, 0.25)
    ]


def _transposed_below_the_stride() -> list[Edge]:
    """The bias of each of 20 channels is nearly a tie; a kernel of one tap below a stride of 2."""
    scale, unit = float(np.float32(0.0083538)), np.float32(0.05) * np.float32(0.01)
    halves = (np.arange(20) - 10 + 0.5) * scale / float(unit)
    bias = _given("bias", np.rint(halves).astype(np.int32), float(unit), role="const")
    weights = _given("weights", np.full((20, 1, 1, 1), 3, np.int8), 0.01, role="const")
    x = _given("input", np.full((1, 2, 2, 1), 7, np.int8), 0.05, 7)
    found: list[Edge] = []
    for padding, size in (("SAME", 4), ("SAME", 3), ("VALID", 3), ("VALID", 4)):
        shape = [1, size, size, 20]
        given = {"name": "output_shape", "role": "const", "value": np.int32(shape), "scale": [],
                 "zero": []}  # fmt: skip
        attributes = {"stride_h": 2, "stride_w": 2, "padding": padding, "activation": "NONE",
                      "output_shape": shape}  # fmt: skip
        found.append(("TRANSPOSE_CONV", attributes, [given, weights, x, bias], scale, 0, ""))
    return found


def _comparisons_of_large_scales() -> list[Edge]:
    """Shifts by a negative number of bits."""
    found: list[Edge] = []
    for scale in (1.5, 65000.0):
        pair = [
            _given(f"input{n}", _every(3).reshape(shape), scale)
            for n, shape in ((1, (-1, 1)), (2, (1, -1)))
        ]
        found += [(op, {}, pair, "bool", None, "litert") for op in ("EQUAL", "LESS")]
    return found


def _floats_beyond_int32() -> list[Edge]:
    """Quotients around 2^31 steps of 1/32, infinities, and what is not a number."""
    values = [1e7, 6.6e7, 6.8e7, 1e9, 3e38, -6.6e7, -6.8e7, -3e38, np.inf, -np.inf, np.nan, 0.25]
    x = {"name": "input", "role": "input", "value": np.float32(values), "scale": [], "zero": []}
    return [("QUANTIZE", {}, [x], 1 / 32, zero, "") for zero in (-5, 5)]


def _products_beyond_int32() -> list[Edge]:
    """Biases times 1.25: the first is beyond 2^31."""
    x = _given("input", np.zeros((1, 1), np.int8), 0.5)
    weights = _given("weights", np.ones((3, 1), np.int8), 0.5, role="const")
    bias = _given("bias", np.int32([2**31 - 1, 2**30, -(2**31)]), 0.25, role="const")
    given = [x, weights, bias]
    return [
        ("FULLY_CONNECTED", {"activation": "NONE"}, given, 0.2, zero, "litert") for zero in (-5, 5)
    ]


def litert_edges() -> list[Edge]:
    """Return all cases."""
    return [
        *_functions_near_powers_of_two(),
        *_fused_clamps_at_ties(),
        *_sums(),
        *_transposed_below_the_stride(),
        *_comparisons_of_large_scales(),
        *_floats_beyond_int32(),
        *_products_beyond_int32(),
    ]
