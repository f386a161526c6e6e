"""ONNX Runtime's Softmax in 8 bits: a table of exponentials, then float32.

    e[i] = float32(exp((i − 255 + B) · sx)),  B · sx = max(0, float32(log(FLT_MAX / D)) − 5),  i = x − max(x) + 255
    q    = rne(e · floor(1 / sy) / Σe) + zy            Σ in the order of the D elements, in float32

B is as large as a sum of D values permits without overflow. The output's effective scale is 1/floor(1/sy).

Versions differ in how the quotient is computed and how it becomes 8 bits (found by experiment with each):

    from 1.32       in float64, saturated
    1.29 to 1.31    in float32, saturated; where e · floor(1 / sy) overflows, one value of each type and zero point
    1.20 to 1.28    in float32; int8 is cut at 255 and then wraps modulo 256, uint8 saturates; overflow as below
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import FloatArray, IntArray, QType
from ptq.executor.arithmetics.legacy_softmax import extend_to_trailing_axes
from ptq.executor.arithmetics.node_site import (
    Inputs,
    Kernel,
    KernelMaker,
    Site,
    get_activation_qparams,
    get_output_bounds,
    get_output_qparams,
    require_input,
)

_FLOAT_MAX = np.finfo(np.float32).max


def _compute_exponentials(scale: float, length: int) -> FloatArray:
    # The quotient and its logarithm are float32 in ONNX Runtime; all that follows is double.
    logarithm = np.float32(np.log(np.float64(_FLOAT_MAX / np.float32(length))))
    lift = max(0.0, float(logarithm) - 5.0) / scale
    table: FloatArray = np.exp((np.arange(256) - 255 + lift) * scale).astype(np.float32)
    return table


@dataclass(frozen=True, eq=False)
class _Terms:
    """What the results of one node are computed from.

    Attributes:
        values: e of each element.
        total: Σe, along the axis.
        inverse_scale: floor(1 / sy).
        zero_point: zy.
        qtype: Type of the output.
    """

    values: FloatArray
    total: FloatArray
    inverse_scale: np.float32
    zero_point: int
    qtype: QType

    def quotient(self) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """E · floor(1 / sy) / Σe rounded, all in float32, and where the product overflows."""
        with np.errstate(over="ignore"):
            scaled = self.values * self.inverse_scale
        return np.rint(scaled / self.total) + np.float32(self.zero_point), np.isinf(scaled)


def _round_in_float64(terms: _Terms) -> NDArray[Any]:
    scaled = terms.values.astype(np.float64) * np.float64(terms.inverse_scale)
    rounded: NDArray[Any] = np.rint(scaled / terms.total) + terms.zero_point
    return rounded


def _saturate(terms: _Terms) -> NDArray[Any]:
    """An infinity becomes the least int32 for int8, and adding a negative zero point wraps.

    For uint8 it becomes 0, through 64 bits.
    """
    rounded, overflows = terms.quotient()
    lo, hi = terms.qtype.lo, terms.qtype.hi
    signed = hi if terms.zero_point < 0 else lo
    rounded[overflows] = signed if terms.qtype.signed else terms.zero_point
    return rounded


def _wrap(terms: _Terms) -> NDArray[Any]:
    """Every sum is cut at 255, the bound of uint8; an infinity is the least int32 before the sum."""
    if not terms.qtype.signed:
        return _saturate(terms)
    rounded, overflows = terms.quotient()
    rounded[overflows] = 255 if terms.zero_point < 0 else terms.zero_point
    wrapped: NDArray[Any] = np.minimum(rounded, 255).astype(np.int32).astype(np.int8)
    return wrapped


def _make_softmax(site: Site, to_integers: Callable[[_Terms], NDArray[Any]]) -> Kernel:
    x, y = get_activation_qparams(site), get_output_qparams(site)
    lo, hi = get_output_bounds(site)
    axis = int(site.attrs.get("axis", -1))
    inverse_scale = np.floor(np.float32(1) / y.scale)
    scale = float(x.scale)

    def kernel(inputs: Inputs) -> NDArray[Any]:
        q = require_input(site, inputs, 0).astype(np.int16)
        if not q.size:
            return q.astype(y.qtype.dtype)
        table = _compute_exponentials(scale, q.shape[axis])
        values = table[q - q.max(axis=axis, keepdims=True) + 255]
        # accumulate adds one by one; sum would add in pairs and round differently.
        total = np.take(np.add.accumulate(values, axis=axis), [-1], axis)
        terms = _Terms(values, total, inverse_scale, int(y.zero_point), y.qtype)
        q_out: IntArray = np.clip(to_integers(terms), lo, hi).astype(y.qtype.dtype)
        return q_out

    return kernel


def _make_softmax_maker(to_integers: Callable[[_Terms], NDArray[Any]]) -> KernelMaker:
    return extend_to_trailing_axes(partial(_make_softmax, to_integers=to_integers))


KERNELS: Mapping[str, KernelMaker] = {"Softmax": _make_softmax_maker(_round_in_float64)}
OVERFLOWING: Mapping[str, KernelMaker] = {"Softmax": _make_softmax_maker(_saturate)}
"""Of ONNX Runtime before 1.32."""
WRAPPING: Mapping[str, KernelMaker] = {"Softmax": _make_softmax_maker(_wrap)}
"""Of ONNX Runtime before 1.29."""
