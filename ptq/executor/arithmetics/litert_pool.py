"""LiteRT's averages and sums in 8 bits.

    AveragePool   Σ and n of the raw integers inside the image;  q = Σ / n, ties away from zero    equal scales
    Mean          (m, s) = QM(sx / so),  k = min(floor(log2 n), 32, 31 + s),  m' = (m · 2^k) / n truncated
                  q = zo + MBQM(Σx − zx · n, m', s − k)
    Sum           q = zo + MBQM(Σx − zx · n, sx / so)

GlobalAveragePool is a Mean over the spatial axes. Sum is the formula of tflite-micro and of the specification:
LiteRT 2.3.0's own reference kernel reads int8 as uint8 there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.executor.arithmetics.data_movement import pool_window
from ptq.executor.arithmetics.litert_elementwise import require_same_scale, saturate_to_output
from ptq.executor.arithmetics.node_site import (
    Inputs,
    Kernel,
    KernelMaker,
    Site,
    compute_scale_ratio,
    get_activation_qparams,
    get_output_bounds,
    get_output_qparams,
    get_reduced_axes,
    require_input,
)
from ptq.kernels.axis_sums import sum_axes
from ptq.kernels.fixed_point import multiply, quantize_multiplier, rescale
from ptq.kernels.pool import compute_window_sums
from ptq.kernels.window import build_window_axes


def _make_average_pool(site: Site) -> Kernel:
    window, lo_hi = pool_window(site), get_output_bounds(site)
    if site.attrs.get("count_include_pad", 0) and any(window["pads"]):
        raise UnsupportedError("AVERAGE_POOL_2D counts no padding; pad with a Pad node before it")

    def kernel(inputs: Inputs) -> NDArray[Any]:
        q = require_input(site, inputs, 0)
        sums, counts = compute_window_sums(
            q, build_window_axes(q.shape[1:-1], **window), count_include_pad=False
        )
        n = np.asarray(counts, np.int64)
        half = n // 2
        # |Σ| + n/2 over n, floored, is the truncating division of either sign.
        mean = np.sign(sums) * ((np.abs(sums.astype(np.int64)) + half) // n)
        rounded: NDArray[Any] = np.clip(mean, *lo_hi).astype(q.dtype)
        return rounded

    return kernel


def _compute_mean_of_sums(site: Site, total: NDArray[np.int64], count: int) -> NDArray[Any]:
    """Return the mean, given sums of x − zx."""
    multiplier, shift = quantize_multiplier(compute_scale_ratio(site))
    extra = min(max(count.bit_length() - 1, 0), 32, 31 + int(shift))
    divided = (int(multiplier) << extra) // count if count else 0
    return saturate_to_output(site, multiply(total, divided, int(shift) - extra))


def _make_reduce_mean(site: Site) -> Kernel:
    zero_point = int(get_activation_qparams(site).zero_point)
    get_output_qparams(site)
    keepdims = bool(site.attrs.get("keepdims", 1))

    def kernel(inputs: Inputs) -> NDArray[Any]:
        total, count = sum_axes(
            require_input(site, inputs, 0), get_reduced_axes(site, inputs), keepdims
        )
        return _compute_mean_of_sums(site, total - count * zero_point, count)

    return kernel


def _make_global_average_pool(site: Site) -> Kernel:
    zero_point = int(get_activation_qparams(site).zero_point)
    get_output_qparams(site)

    def kernel(inputs: Inputs) -> NDArray[Any]:
        q = require_input(site, inputs, 0)
        total, count = sum_axes(q, range(1, q.ndim - 1), keepdims=True)
        return _compute_mean_of_sums(site, total - count * zero_point, count)

    return kernel


def _make_reduce_sum(site: Site) -> Kernel:
    x, ratio = get_activation_qparams(site), compute_scale_ratio(site)
    keepdims = bool(site.attrs.get("keepdims", 1))

    def kernel(inputs: Inputs) -> NDArray[Any]:
        total, count = sum_axes(
            require_input(site, inputs, 0), get_reduced_axes(site, inputs), keepdims
        )
        return saturate_to_output(site, rescale(total - count * int(x.zero_point), ratio))

    return kernel


KERNELS: Mapping[str, KernelMaker] = {
    "AveragePool": require_same_scale(_make_average_pool),
    "GlobalAveragePool": _make_global_average_pool,
    "ReduceMean": _make_reduce_mean,
    "ReduceSum": _make_reduce_sum,
}
