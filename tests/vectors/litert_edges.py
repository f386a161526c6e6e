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


def litert_edges() -> list[Edge]:
    """Return all cases."""
    return [*_functions_near_powers_of_two()]
