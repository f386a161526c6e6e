"""ONNX Runtime's Softmax in 8 bits: a table of exponentials, then float32.

    e[i] = float32(exp((i − 255 + B) · sx)),  B · sx = max(0, float32(log(FLT_MAX / D)) − 5),  i = x − max(x) + 255
    q    = rne((e · floor(1 / sy)) / Σe) + zy          Σ in the order of the D elements, in float32

B is as large as a sum of D values permits without overflow. The output's effective scale is 1/floor(1/sy).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import FloatArray, IntArray
from ptq.executor.arithmetics.legacy_softmax import softmax_over_trailing_axes
from ptq.executor.arithmetics.node_site import (
    Inputs,
    Kernel,
    KernelMaker,
    Site,
    activation_qparams,
    output_bounds,
    output_qparams,
    require_input,
)

_FLOAT_MAX = np.finfo(np.float32).max


def _exponentials(scale: float, length: int) -> FloatArray:
    # The quotient and its logarithm are float32 in ONNX Runtime; all that follows is double.
    logarithm = np.float32(np.log(np.float64(_FLOAT_MAX / np.float32(length))))
    lift = max(0.0, float(logarithm) - 5.0) / scale
    table: FloatArray = np.exp((np.arange(256) - 255 + lift) * scale).astype(np.float32)
    return table


def _softmax(site: Site) -> Kernel:
    x, y = activation_qparams(site), output_qparams(site)
    lo, hi = output_bounds(site)
    axis = int(site.attrs.get("axis", -1))
    inverse_scale = np.floor(np.float32(1) / y.scale)
    scale = float(x.scale)
    zero_point = int(y.zero_point)
    # With an output scale below 1/(148 D), e · floor(1 / sy) overflows. For int8, x86-64 converts that infinity to
    # the least int32, and adding a negative zero point wraps. For uint8, through 64 bits, the infinity becomes zero.
    overflowed = (hi if zero_point < 0 else lo) if y.qtype.signed else zero_point

    def kernel(inputs: Inputs) -> NDArray[Any]:
        q = require_input(site, inputs, 0).astype(np.int16)
        if not q.size:
            return q.astype(y.qtype.dtype)
        table = _exponentials(scale, q.shape[axis])
        values = table[q - q.max(axis=axis, keepdims=True) + 255]
        # accumulate adds one by one; sum would add in pairs and round differently.
        total = np.take(np.add.accumulate(values, axis=axis), [-1], axis)
        with np.errstate(over="ignore"):
            scaled = values * inverse_scale
        rounded = np.rint(scaled / total) + np.float32(zero_point)
        rounded[np.isinf(scaled)] = overflowed
        q_out: IntArray = np.clip(rounded, lo, hi).astype(y.qtype.dtype)
        return q_out

    return kernel


KERNELS: Mapping[str, KernelMaker] = {"Softmax": softmax_over_trailing_axes(_softmax)}
