"""How does ONNX Runtime average in 8 bits?

QLinearAveragePool:        d = sx · (x − zx), added one by one in the window's order, in float32
                           q = rne(float32((Σd / n) / sy) + zy)               the zero point before rounding
                           n the window's taps inside the image, or with count_include_pad all of them
QLinearGlobalAveragePool:  s = sx / (sy · n);  q = rne(clamp(float32(Σx − n·zx) · s)) + zy          after it
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.arithmetics.moves import pool_window
from ptq.arithmetics.operands import Inputs, activation, bounds, required, result
from ptq.arithmetics.site import Kernel, Maker, Site
from ptq.kernels.lookup import lookup, tabulate
from ptq.kernels.pool import sequential_window_sum
from ptq.kernels.reduce import axis_sums
from ptq.types import IntArray


def _average_pool(site: Site) -> Kernel:
    x, y = activation(site), result(site)
    lo, hi = bounds(site)
    window = pool_window(site)
    counted = bool(site.attrs.get("count_include_pad", 0))
    taps = prod(window["kernel_shape"])
    reals = tabulate(x.dequantize, x.qtype)
    offset = y.zero_point.astype(np.float32)

    def kernel(inputs: Inputs) -> NDArray[Any]:
        values = lookup(reals, required(site, inputs, 0))
        sums, inside = sequential_window_sum(values, **window)
        count = np.float32(taps) if counted else inside.astype(np.float32)
        q = sums / count / y.scale + offset
        rounded: IntArray = np.clip(np.rint(q), lo, hi).astype(y.qtype.dtype)
        return rounded

    return kernel


def _global_average_pool(site: Site) -> Kernel:
    x, y = activation(site), result(site)
    lo, hi = (bound - int(y.zero_point) for bound in bounds(site))

    def kernel(inputs: Inputs) -> NDArray[Any]:
        q = required(site, inputs, 0)
        total, count = axis_sums(q, range(1, q.ndim - 1), keepdims=True)
        scale = x.scale / (y.scale * np.float32(count))
        value = (total - count * int(x.zero_point)).astype(np.float32) * scale
        rounded = np.rint(np.clip(value, lo, hi)) + np.float32(y.zero_point)
        return rounded.astype(y.qtype.dtype)

    return kernel


KERNELS: Mapping[str, Maker] = {
    "AveragePool": _average_pool,
    "GlobalAveragePool": _global_average_pool,
}
