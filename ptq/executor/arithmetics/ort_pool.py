"""ONNX Runtime's average pools in 8 bits.

QLinearAveragePool:        d = sx · (x − zx), added one by one in the window's order, in float32
                           q = rne(float32((Σd / n) / sy) + zy)               the zero point before rounding
                           n the window's taps inside the image, or with count_include_pad all of them;
                           if strides skip positions, SAME leaves half of them before the first window
                           a window that is the whole image, without padding, is a QLinearGlobalAveragePool
QLinearGlobalAveragePool:  s = sx / (sy · n);  q = rne(clamp(float32(Σx − n·zx) · s)) + zy          after it
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.executor.arithmetics.data_movement import build_onnxruntime_axes, pool_window
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
from ptq.executor.arithmetics.ort_elementwise import round_and_clamp
from ptq.kernels.axis_sums import sum_axes
from ptq.kernels.lookup import lookup, tabulate
from ptq.kernels.pool import compute_sequential_window_sums


def _make_average_pool(site: Site) -> Kernel:
    x, y = get_activation_qparams(site), get_output_qparams(site)
    window = pool_window(site)
    counted = bool(site.attrs.get("count_include_pad", 0))
    reals = tabulate(x.dequantize, x.qtype)
    offset = y.zero_point.astype(np.float32)
    of_all = _make_global_average_pool(site)

    def kernel(inputs: Inputs) -> NDArray[Any]:
        x_q = require_input(site, inputs, 0)
        if _is_global_window(x_q.shape[1:-1], window):
            return of_all(inputs)
        axes = build_onnxruntime_axes(x_q.shape[1:-1], **window)
        values = lookup(reals, x_q)
        sums, counts = compute_sequential_window_sums(values, axes, count_include_pad=counted)
        return round_and_clamp(site, sums / counts.astype(np.float32) / y.scale + offset)

    return kernel


def _is_global_window(sizes: tuple[int, ...], window: Mapping[str, Any]) -> bool:
    if sizes != window["kernel"]:
        return False
    return not any(axis.begin or axis.end for axis in build_onnxruntime_axes(sizes, **window))


def _make_global_average_pool(site: Site) -> Kernel:
    x, y = get_activation_qparams(site), get_output_qparams(site)
    lo, hi = (bound - int(y.zero_point) for bound in get_output_bounds(site))

    def kernel(inputs: Inputs) -> NDArray[Any]:
        q = require_input(site, inputs, 0)
        total, count = sum_axes(q, range(1, q.ndim - 1), keepdims=True)
        scale = x.scale / (y.scale * np.float32(count))
        value = (total - count * int(x.zero_point)).astype(np.float32) * scale
        rounded = np.rint(np.clip(value, lo, hi)) + np.float32(y.zero_point)
        return rounded.astype(y.qtype.dtype)

    return kernel


KERNELS: Mapping[str, KernelMaker] = {
    "AveragePool": _make_average_pool,
    "GlobalAveragePool": _make_global_average_pool,
}
