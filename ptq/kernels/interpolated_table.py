"""Functions of one int16 as tables of 513 entries with linear interpolation, as TensorFlow Lite fills and reads them.

Entry i is the function at the i-th of 512 steps over all int16 inputs. It is moved by half the error that the
interpolation has in the middle of the step. (TensorFlow Lite, LUTPopulate and LUTLookup.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.rounding import round_half_away

_STEPS = 512
_LOWEST, _HIGHEST = -(2**15), 2**15 - 1
_STEP_BITS = 7
"""A step has 2^7 integers."""


def fill_table(
    function: Callable[[NDArray[Any]], NDArray[Any]],
    x: tuple[float, int],
    y: tuple[float, int],
    kind: type[np.floating[Any]],
) -> NDArray[np.int64]:
    """Return the 513 entries of a function.

    Args:
        function: The real function, elementwise.
        x: Scale and zero point of the input.
        y: Scale and zero point of the output.
        kind: The floating-point type in which all is computed.
    """
    in_scale, out_scale = kind(x[0]), kind(y[0])
    first, last = (in_scale * kind(end - x[1]) for end in (_LOWEST, _HIGHEST))
    least, most = (out_scale * kind(end - y[1]) for end in (_LOWEST, _HIGHEST))
    step = (last - first) / kind(_STEPS)
    per_unit = kind(_HIGHEST - _LOWEST + 1) / (most - least)
    at = first + np.arange(_STEPS).astype(kind) * step
    after = first + np.arange(1, _STEPS + 1).astype(kind) * step
    value, middle, following = (
        np.asarray(function(p), kind) for p in (at, at + step / kind(2), after)
    )
    sample = round_half_away(value * per_unit)
    interpolated = round_half_away((following * per_unit + sample) / kind(2))
    error = interpolated - round_half_away(middle * per_unit)
    end = round_half_away(np.asarray(function(np.asarray([last], kind)), kind) * per_unit)
    entries = np.concatenate([sample - round_half_away(error / kind(2)), end])
    table: NDArray[np.int64] = np.clip(entries, _LOWEST, _HIGHEST).astype(np.int64)
    return table


def interpolate(table: NDArray[np.int64], q: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the table's value at int16 integers."""
    index = (_STEPS >> 1) + (q >> _STEP_BITS)
    base = table[index]
    offset = q & ((1 << _STEP_BITS) - 1)
    rise = (table[index + 1] - base) * offset + (1 << (_STEP_BITS - 1))
    result: NDArray[np.int64] = base + (rise >> _STEP_BITS)
    return result
