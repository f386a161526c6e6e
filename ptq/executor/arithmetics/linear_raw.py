"""Conv, Gemm and MatMul as products of matrices of raw integers, for arithmetics with their own accumulation.

`linear` serves arithmetics with exact sums: it subtracts zero points first and takes the fastest kernel, which gives
the same sum. Here the sum depends on the raw operands: pairs saturate, zero points are factored out, or inputs are
aligned. The arithmetic passes in how a right operand (K, N) is prepared and then multiplied by rows (M, K).

K runs over the window's positions, and fastest over the channels of a group. The padding of a convolution holds the
zero point of x, which stands for the real number 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.executor.arithmetics.linear import (
    get_constant_weight,
    get_gemm_weight,
    get_spatial_attributes,
    require_column_bias,
    require_unscaled_bias,
)
from ptq.executor.arithmetics.node_site import Inputs, Kernel, Site, require_input
from ptq.kernels.im2col import im2col
from ptq.kernels.requantizer import Requantizer

Int64 = NDArray[np.int64]
PreparedProduct = Callable[[NDArray[Any]], Int64]
"""Rows (M, K) to accumulators (M, N)."""
ProductPreparer = Callable[[NDArray[Any], Int64], PreparedProduct]
"""A right operand (K, N) and its zero points, one for each column."""
AllChannelsRequantizer = Callable[[Int64], NDArray[Any]]
"""Accumulators (…, N), bias included, to output integers."""


def with_int32_wraparound(requantize: Requantizer) -> AllChannelsRequantizer:
    """Return the requantizer for all channels at once, of accumulators that wrap in int32 as in hardware."""
    return lambda acc: requantize(acc.astype(np.int32), slice(0, acc.shape[-1]))


def make_raw_conv_kernel(
    site: Site,
    prepare: ProductPreparer,
    requantize: AllChannelsRequantizer,
    addend: NDArray[Any] | None,
    *,
    fill: int,
) -> Kernel:
    """Return the kernel of a convolution of channels-last x with constant weights O·spatial·I.

    Args:
        site: The node.
        prepare: Prepares the product with a group's weights.
        requantize: Turns accumulators into outputs.
        addend: Bias in units of the accumulator, one for each output channel, or None.
        fill: Integer of the padding.

    Raises:
        UnsupportedError: The weight is not constant or not quantized, or its channels do not divide into the groups.
    """
    w = get_constant_weight(site)
    outputs, *kernel, _ = w.shape
    attributes = get_spatial_attributes(site, len(kernel))
    group = attributes["group"]
    if outputs % group:
        raise UnsupportedError(f"{outputs} output channels do not divide into {group} groups")
    each = outputs // group
    zeros = _get_zero_points(site, outputs)
    products = [
        prepare(w[g : g + each].reshape(each, -1).T, zeros[g : g + each])
        for g in range(0, outputs, each)
    ]

    def run(inputs: Inputs) -> NDArray[Any]:
        x = require_input(site, inputs, 0)
        rows, sizes = im2col(x, kernel, fill=fill, **attributes)
        acc = np.concatenate([p(r) for p, r in zip(products, rows, strict=True)], axis=1)
        return _add_and_requantize(acc, addend, requantize).reshape(len(x), *sizes, outputs)

    return run


def make_raw_gemm_kernel(
    site: Site,
    prepare: ProductPreparer,
    requantize: AllChannelsRequantizer,
    addend: NDArray[Any] | None,
) -> Kernel:
    """Return the kernel of a Gemm with a constant B. The requantizer applies alpha.

    Args:
        site: The node.
        prepare: Prepares the product with B.
        requantize: Turns accumulators into outputs.
        addend: C in units of the accumulator, one for each column, or None.

    Raises:
        UnsupportedError: B is not constant, beta scales C, or C is not one value for each column.
    """
    b = get_gemm_weight(site)
    if addend is not None:
        require_unscaled_bias(site)
        require_column_bias(addend, b.shape[1])
    product = prepare(b, _get_zero_points(site, b.shape[1]))
    turned = bool(site.attrs.get("transA", 0))

    def kernel(inputs: Inputs) -> NDArray[Any]:
        a = require_input(site, inputs, 0)
        return _add_and_requantize(product(a.T if turned else a), addend, requantize)

    return kernel


def make_raw_matmul_kernel(
    site: Site, prepare: ProductPreparer, requantize: AllChannelsRequantizer
) -> Kernel:
    """Return the kernel of a MatMul of two activations or by a constant; batches broadcast.

    A vector on the left is one row, on the right one column.
    """

    def multiply(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
        zeros = _get_zero_points(site, b.shape[-1])
        if b.ndim == 2:
            rows = a.reshape(-1, a.shape[-1])
            return _add_and_requantize(prepare(b, zeros)(rows), None, requantize).reshape(
                *a.shape[:-1], b.shape[1]
            )
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        left = np.broadcast_to(a, (*batch, *a.shape[-2:])).reshape(-1, *a.shape[-2:])
        right = np.broadcast_to(b, (*batch, *b.shape[-2:])).reshape(-1, *b.shape[-2:])
        acc = [prepare(r, zeros)(m) for m, r in zip(left, right, strict=True)]
        return _add_and_requantize(np.stack(acc), None, requantize).reshape(
            *batch, a.shape[-2], b.shape[-1]
        )

    def kernel(inputs: Inputs) -> NDArray[Any]:
        a, b = require_input(site, inputs, 0), require_input(site, inputs, 1)
        product = multiply(np.atleast_2d(a), b[:, None] if b.ndim == 1 else b)
        added = tuple(axis for axis, operand in ((-2, a), (-1, b)) if operand.ndim == 1)
        return np.squeeze(product, added)

    return kernel


def _get_zero_points(site: Site, columns: int) -> Int64:
    params = site.inputs[1]
    if params is None:
        raise UnsupportedError(f"weight of {site.op} is not quantized; leave the node float")
    return np.broadcast_to(params.zero_point.reshape(-1), (columns,))


def _add_and_requantize(
    acc: Int64, addend: NDArray[Any] | None, requantize: AllChannelsRequantizer
) -> NDArray[Any]:
    return requantize(acc if addend is None else acc + addend.reshape(-1))
