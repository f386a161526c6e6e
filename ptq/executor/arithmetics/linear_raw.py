"""How do Conv, Gemm and MatMul become products of two matrices of raw integers?

For arithmetics whose accumulation is their own. They hand in how a right operand (K, N) is prepared and then
multiplied by rows (M, K); K runs over the window's positions and, fastest, the channels of a group. The padding of
a convolution holds the zero point of x, which stands for the real number 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.executor.arithmetics.node_site import Inputs, Kernel, Site, constant_input, require_input
from ptq.kernels.im2col import im2col
from ptq.kernels.requantizer import Requantizer

Int64 = NDArray[np.int64]
PreparedProduct = Callable[[NDArray[Any]], Int64]
"""Rows (M, K) to accumulators (M, N)."""
ProductPreparer = Callable[[NDArray[Any], Int64], PreparedProduct]
"""A right operand (K, N) and its zero points, one a column."""
AllChannelsRequantizer = Callable[[Int64], NDArray[Any]]
"""Accumulators (…, N), bias included, to output integers."""


def with_int32_wraparound(finish: Requantizer) -> AllChannelsRequantizer:
    """A finish that takes all channels of an accumulator of int32, as hardware wraps it."""
    return lambda acc: finish(acc.astype(np.int32), slice(0, acc.shape[-1]))


def constant_weight(site: Site) -> NDArray[Any]:
    """The integers of input 1.

    Raises:
        UnsupportedError: They arrive at run time.
    """
    w = constant_input(site, 1)
    if w is None:
        raise UnsupportedError(f"{site.op} needs a constant weight; leave the node float")
    return w


def constant_bias(site: Site) -> NDArray[Any] | None:
    """The integers of input 2, None where the node has none.

    Raises:
        UnsupportedError: They arrive at run time.
    """
    c = constant_input(site, 2)
    if c is None and len(site.inputs) > 2 and site.inputs[2] is not None:
        raise UnsupportedError(f"{site.op} needs a constant bias; leave the node float")
    return c


def conv(
    site: Site,
    prepare: ProductPreparer,
    finish: AllChannelsRequantizer,
    addend: NDArray[Any] | None,
    *,
    fill: int,
) -> Kernel:
    """A convolution of channels-last x with constant weights O·spatial·I, padded with ``fill``."""
    w, attrs = constant_weight(site), site.attrs
    group = int(attrs.get("group", 1))
    outputs, *kernel, _ = w.shape
    if outputs % group:
        raise UnsupportedError(f"{outputs} output channels do not divide into {group} groups")
    each = outputs // group
    zeros = _zero_points(site, outputs)
    products = [
        prepare(w[g : g + each].reshape(each, -1).T, zeros[g : g + each])
        for g in range(0, outputs, each)
    ]
    geometry = {key: attrs.get(key) for key in ("strides", "pads", "dilations")}
    geometry = {key: None if v is None else tuple(v) for key, v in geometry.items()}
    auto_pad = attrs.get("auto_pad", "NOTSET")

    def kernel_of(inputs: Inputs) -> NDArray[Any]:
        x = require_input(site, inputs, 0)
        rows, sizes = im2col(x, kernel, group, fill, auto_pad=auto_pad, **geometry)
        acc = np.concatenate([p(r) for p, r in zip(products, rows, strict=True)], axis=1)
        return _requantize(acc, addend, finish).reshape(len(x), *sizes, outputs)

    return kernel_of


def gemm(
    site: Site,
    prepare: ProductPreparer,
    finish: AllChannelsRequantizer,
    addend: NDArray[Any] | None,
) -> Kernel:
    """Gemm with a constant B; alpha is left to the finish.

    Raises:
        UnsupportedError: B is not constant, or beta scales C.
    """
    b = constant_weight(site)
    if site.attrs.get("transB", 0):
        b = b.T
    if addend is not None and site.attrs.get("beta", 1.0) != 1.0:
        raise UnsupportedError("Gemm's beta has no integer form; fold it into C")
    if addend is not None and addend.size not in (1, b.shape[1]):
        raise UnsupportedError(f"Gemm adds one C a column, not of shape {addend.shape}")
    product = prepare(b, _zero_points(site, b.shape[1]))
    turned = bool(site.attrs.get("transA", 0))

    def kernel(inputs: Inputs) -> NDArray[Any]:
        a = require_input(site, inputs, 0)
        return _requantize(product(a.T if turned else a), addend, finish)

    return kernel


def matmul(site: Site, prepare: ProductPreparer, finish: AllChannelsRequantizer) -> Kernel:
    """MatMul of two activations or by a constant, batches broadcast.

    Raises:
        UnsupportedError: An operand is a vector.
    """

    def kernel(inputs: Inputs) -> NDArray[Any]:
        a, b = require_input(site, inputs, 0), require_input(site, inputs, 1)
        if a.ndim < 2 or b.ndim < 2:
            raise UnsupportedError("MatMul by a vector; reshape it to a matrix")
        zeros = _zero_points(site, b.shape[-1])
        if b.ndim == 2:
            rows = a.reshape(-1, a.shape[-1])
            return _requantize(prepare(b, zeros)(rows), None, finish).reshape(
                *a.shape[:-1], b.shape[1]
            )
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        left = np.broadcast_to(a, (*batch, *a.shape[-2:])).reshape(-1, *a.shape[-2:])
        right = np.broadcast_to(b, (*batch, *b.shape[-2:])).reshape(-1, *b.shape[-2:])
        acc = [prepare(r, zeros)(m) for m, r in zip(left, right, strict=True)]
        return _requantize(np.stack(acc), None, finish).reshape(*batch, a.shape[-2], b.shape[-1])

    return kernel


def _zero_points(site: Site, columns: int) -> Int64:
    params = site.inputs[1]
    if params is None:
        raise UnsupportedError(f"weight of {site.op} is not quantized; leave the node float")
    return np.broadcast_to(params.zero_point.reshape(-1), (columns,))


def _requantize(
    acc: Int64, addend: NDArray[Any] | None, finish: AllChannelsRequantizer
) -> NDArray[Any]:
    return finish(acc if addend is None else acc + addend.reshape(-1))
