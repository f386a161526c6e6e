"""LiteRT's reference kernels on activations of 16 bits and weights of 8, to the bit.

    Gemm, MatMul by a constant  q = round(acc · (sx · sw[c] / so))                       float64, ties away from zero
    Conv, ConvTranspose         (m, s) = QM(sx · sw[c] / so),  m' = floor((m + 2^15) / 2^16), at most 2^15 − 1
                                q = floor((acc · m' + 2^(14−s)) / 2^(15−s))
    MatMul of activations       the same with float32(sa · sb) / so
    Add, Sub                    as in 8 bits, with 2^15 in place of 2^20
    Mul, QUANTIZE, Mean, AveragePool, clamps                                             as in 8 bits

Zero points are 0. An activation is high · 256 + low. Each part has exact sums of 8-bit products; together they
have 64 bits, as in LiteRT. The rules were found by experiment with ai-edge-litert 2.3.0, with its reference kernels
forced. Operators without a row here are float between quantizers of 16 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.rounding import round_half_away
from ptq.core.types import INT8, UINT8, QuantParams
from ptq.executor.arithmetics import (
    data_movement,
    linear,
    litert_image,
    litert_pool,
    litert_wide_functions,
    quantizers,
)
from ptq.executor.arithmetics.litert_elementwise import (
    list_elementwise_makers,
    require_same_scale,
    saturate_to_output,
)
from ptq.executor.arithmetics.node_site import (
    Inputs,
    Kernel,
    KernelMaker,
    Site,
    compute_product_scale_ratio,
    get_activation_qparams,
    get_constant_input,
    get_output_qparams,
    require_input,
)
from ptq.kernels.fixed_point import INT16_MAX, Int64, quantize_multiplier
from ptq.kernels.lookup import Function, PairFunction
from ptq.kernels.requantizer import Accumulator, Channels, Requantizer

_HEADROOM = 15
_LOW_BITS = 8
Core = Callable[[Site, Requantizer], Kernel]


def _keep_sums(acc: Accumulator, channels: Channels) -> NDArray[Any]:
    """Return the accumulators themselves."""
    del channels
    return np.array(acc, np.int64)


def _with_input(site: Site, position: int, params: QuantParams) -> Site:
    inputs = [*site.inputs]
    inputs[position] = params
    return replace(site, inputs=tuple(inputs), bits=8)


def _split_qparams(params: QuantParams) -> tuple[QuantParams, QuantParams]:
    """Return the parameters of the high and the low byte; only their types and zero points are read."""
    scale = float(params.scale)
    return QuantParams.per_tensor(scale, 0, INT8), QuantParams.per_tensor(scale, 0, UINT8)


def _split(q: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.uint8]]:
    return (q >> _LOW_BITS).astype(np.int8), (q & 0xFF).astype(np.uint8)


def _make_sum_kernel(core: Core, site: Site) -> Callable[[Inputs], Int64]:
    """Return the exact sums of products of an activation and constant weights, bias included."""
    high, low = _split_qparams(get_activation_qparams(site))
    bias = linear.get_constant_bias(site)
    bare = replace(
        site,
        inputs=site.inputs[:2],
        constants=site.constants[:2],
        outputs=(QuantParams.per_tensor(1.0, 0, INT8),),
    )
    upper, lower = (core(_with_input(bare, 0, half), _keep_sums) for half in (high, low))
    added = 0 if bias is None else bias.reshape(-1).astype(np.int64)

    def sums(inputs: Inputs) -> Int64:
        above, below = _split(require_input(site, inputs, 0))
        total: Int64 = (upper([above, *inputs[1:2]]).astype(np.int64) << _LOW_BITS) + lower(
            [below, *inputs[1:2]]
        )
        return total + added

    return sums


def _make_float64_rescaling(factor: NDArray[np.float64]) -> Callable[[Int64], NDArray[Any]]:
    """Return the product with float64 factors, ties away from zero."""
    return lambda total: round_half_away(total * factor)


def _make_16_bit_rescaling(factor: NDArray[np.float64]) -> Callable[[Int64], NDArray[Any]]:
    """Return the product with factors of 16 bits, ties upwards, as LiteRT rescales sums of 64 bits."""
    multiplier, shift = quantize_multiplier(factor)
    reduced = np.minimum((multiplier + (1 << 15)) >> 16, INT16_MAX)
    down = 15 - shift
    half = np.int64(1) << (down - 1)
    return lambda total: (total * reduced + half) >> down


def _make_product_maker(
    core: Core, rescaling: Callable[[NDArray[np.float64]], Callable[[Int64], NDArray[Any]]]
) -> KernelMaker:
    """Return the maker of a product with constant weights, its sums rescaled."""

    def make(site: Site) -> Kernel:
        linear.require_unscaled_bias(site)
        factor = compute_product_scale_ratio(site)
        to_output = rescaling(factor.reshape(()) if factor.size == 1 else factor)
        sums = _make_sum_kernel(core, site)
        return lambda inputs: saturate_to_output(site, to_output(sums(inputs)))

    return make


def _make_matmul(site: Site) -> Kernel:
    """FULLY_CONNECTED by a constant matrix, else BATCH_MATMUL."""
    right = get_constant_input(site, 1)
    if right is not None and right.ndim == 2:
        return _make_product_maker(linear.make_matmul_kernel, _make_float64_rescaling)(site)
    a, b, y = (
        get_activation_qparams(site),
        get_activation_qparams(site, 1),
        get_output_qparams(site),
    )
    to_output = _make_16_bit_rescaling(np.asarray(np.float64(a.scale * b.scale) / float(y.scale)))
    cores = {
        (i, j): linear.make_matmul_kernel(
            replace(site, inputs=(p, q), constants=(None, None), bits=8), _keep_sums
        )
        for i, p in enumerate(_split_qparams(a))
        for j, q in enumerate(_split_qparams(b))
    }

    def kernel(inputs: Inputs) -> NDArray[Any]:
        left = _split(require_input(site, inputs, 0))
        other = _split(require_input(site, inputs, 1))
        parts = {
            (i, j): core([left[i], other[j]]).astype(np.int64) for (i, j), core in cores.items()
        }
        total = (
            (parts[0, 0] << 2 * _LOW_BITS)
            + ((parts[0, 1] + parts[1, 0]) << _LOW_BITS)
            + parts[1, 1]
        )
        return saturate_to_output(site, to_output(total))

    return kernel


def _make_elementwise(site: Site, function: Callable[..., NDArray[Any]], count: int) -> Kernel:
    """Return the kernel of a function of the integers of some inputs; zero points are 0."""
    for position in range(count):
        get_activation_qparams(site, position)
    get_output_qparams(site)

    def kernel(inputs: Inputs) -> NDArray[Any]:
        given = (require_input(site, inputs, i).astype(np.int64) for i in range(count))
        return saturate_to_output(site, function(*given))

    return kernel


def _make_unary(site: Site, function: Function) -> Kernel:
    return _make_elementwise(site, function, 1)


def _make_pair(site: Site, function: PairFunction) -> Kernel:
    return _make_elementwise(site, function, 2)


_MOVED = (
    "Expand", "Flatten", "Gather", "GlobalMaxPool", "Identity", "MaxPool", "Pad", "ReduceMax", "ReduceMin",
    "Reshape", "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
)  # fmt: skip

KERNELS: Mapping[str, KernelMaker] = {
    **{op: require_same_scale(data_movement.LITERT_DATA_MOVEMENT_OPS[op]) for op in _MOVED},
    **{
        op: require_same_scale(data_movement.MULTI_INPUT_OPS[op], all_inputs=True)
        for op in ("Concat", "Max", "Min", "Where")
    },
    **{op: litert_image.KERNELS[op] for op in ("Resize linear", "Resize nearest")},
    **{op: litert_pool.KERNELS[op] for op in ("AveragePool", "GlobalAveragePool", "ReduceMean")},
    **litert_wide_functions.KERNELS,
    **quantizers.LITERT,
    **list_elementwise_makers(_HEADROOM, _make_unary, _make_pair),
    "Conv": _make_product_maker(linear.make_conv_kernel, _make_16_bit_rescaling),
    "ConvTranspose": _make_product_maker(linear.make_conv_transpose_kernel, _make_16_bit_rescaling),
    "Gemm": _make_product_maker(linear.make_gemm_kernel, _make_float64_rescaling),
    "MatMul": _make_matmul,
}
