"""How do tensors of different scales meet where all arithmetic is fixed-point? Their scales are aligned by shifts.

A scale is an 8-bit mantissa and a power of two (`fixed_point_align`); an integer n becomes a fixed-point number,

    x_i = ((n − zero_point) · i_s) << (maxfracbits − fracbits),      scale ≈ i_s · 2^-fracbits

whose implicit scale 2^-maxfracbits the rescale to the output takes in:

    Add, Sub, Concat     q = Zy + (x_i [± y_i]) · 2^-maxfracbits / Sy                  aligned channel by channel
    Conv, Gemm, MatMul   q = Zy + (Σ x_i (w − Zw) + b_i) · 2^-maxfracbits · Sw[c] / Sy
    Requantize           q = Zy + x_i · 2^-maxfracbits / Sy                             Relu, Clip: clamped

Products sum over channels, so an input quantized per channel is aligned to one scalar maxfracbits. The bias
becomes b_i, in steps of 2^-maxfracbits · Sw[c], before anything runs. Concat is our extension, and so are Max, Min,
Where and comparisons: they too combine inputs of different scales. The axis of a per-channel activation counts in
the layout of the arrays that a kernel gets.

Source: D. Corvoysier, Aligning quantization scales before incompatible operations, 2023. Three of its formulas
slip (derived in the tests): the shift is maxfracbits − fracbits, b's exponent is fracbits_b, and 2^-maxfracbits
enters the multiplier of the rescale, not the output's scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.core.types import QuantParams
from ptq.executor.arithmetics import (
    data_movement,
    linear,
    linear_raw,
    quantizers,
    unary_functions,
)
from ptq.executor.arithmetics.activation_clamp import with_clamp
from ptq.executor.arithmetics.fixed_point_align import (
    ScaleAlignment,
    align_scales,
    output_requantizer,
    reshape_per_channel,
)
from ptq.executor.arithmetics.min_max import COMPARISONS, BinaryFunction
from ptq.executor.arithmetics.node_site import (
    Inputs,
    Kernel,
    KernelMaker,
    Site,
    constant_input,
    output_qparams,
    require_input,
    weight_qparams,
)
from ptq.kernels.im2col import exact_matmul


def _input_qparams(site: Site, index: int) -> QuantParams:
    """Parameters of an 8-bit input, per tensor or per channel."""
    params = site.inputs[index] if index < len(site.inputs) else None
    if params is None or params.qtype.bits != 8:
        raise UnsupportedError(f"input {index} of {site.op} is not 8-bit; leave the node float")
    return params


def _rescale_factor(site: Site, maxfracbits: NDArray[np.int64]) -> NDArray[np.float64]:
    unit = np.ldexp(1.0, -maxfracbits.astype(np.int32))
    return np.asarray(unit / float(output_qparams(site).scale))


def _sum(site: Site, *, sign: int) -> Kernel:
    (a, b), maxfracbits = align_scales([_input_qparams(site, 0), _input_qparams(site, 1)])
    real = _rescale_factor(site, maxfracbits)

    def kernel(inputs: Inputs) -> NDArray[Any]:
        left, right = a(require_input(site, inputs, 0)), b(require_input(site, inputs, 1))
        total = left + sign * right
        axis = a.axis if a.axis is not None else b.axis
        requantize = output_requantizer(
            site, reshape_per_channel(real, axis, total.ndim), a.max_magnitude + b.max_magnitude
        )
        return requantize(total)

    return kernel


def _with_requantized_inputs(site: Site, *, join: KernelMaker) -> Kernel:
    quantized = [i for i, params in enumerate(site.inputs) if params is not None]
    ways, maxfracbits = align_scales([_input_qparams(site, i) for i in quantized], one_scale=True)
    requantize = output_requantizer(
        site, _rescale_factor(site, maxfracbits), max(way.max_magnitude for way in ways)
    )
    joined = join(site)

    def kernel(inputs: Inputs) -> NDArray[Any]:
        parts = [require_input(site, inputs, i) for i in range(len(site.inputs))]
        for i, way in zip(quantized, ways, strict=True):
            parts[i] = way(parts[i])
        return requantize(joined(parts))

    return kernel


def _comparison_kernel(site: Site, *, comparison: BinaryFunction) -> Kernel:
    """Aligned tensors count in one unit: their integers compare as they are."""
    (a, b), _ = align_scales([_input_qparams(site, 0), _input_qparams(site, 1)], one_scale=True)
    return lambda inputs: comparison(
        a(require_input(site, inputs, 0)), b(require_input(site, inputs, 1))
    )


def _requantize(site: Site) -> Kernel:
    (way,), maxfracbits = align_scales([_input_qparams(site, 0)])
    real = _rescale_factor(site, maxfracbits)

    def kernel(inputs: Inputs) -> NDArray[Any]:
        x = way(require_input(site, inputs, 0))
        return output_requantizer(
            site, reshape_per_channel(real, way.axis, x.ndim), way.max_magnitude
        )(x)

    return kernel


def _clip(site: Site) -> Kernel:
    return _requantize(with_clamp(site))


def _data_movement_kernel(site: Site, *, move: KernelMaker) -> Kernel:
    """A movement; where the scales differ the input is rescaled first."""
    x, y = site.inputs[0], site.outputs[0]
    if x is None or (x == y and site.clamp is None):
        return move(site)
    requantize = _requantize(site)
    kernel = move(replace(site, inputs=(y, *site.inputs[1:])))
    return lambda inputs: kernel([requantize(inputs), *inputs[1:]])


def _prepare_product(
    site: Site,
) -> tuple[
    linear_raw.ProductPreparer,
    linear_raw.AllChannelsRequantizer,
    NDArray[Any] | None,
    ScaleAlignment,
]:
    """What a product of aligned rows is made of: the operand, the rescale, the bias, and the alignment."""
    (way,), maxfracbits = align_scales([_input_qparams(site, 0)], one_scale=True)
    w_scale = weight_qparams(site).scale.astype(np.float64)
    unit = w_scale * np.ldexp(1.0, -int(maxfracbits))
    addend = linear.constant_bias(site)
    of_bias = 0
    if addend is not None:
        addend = np.rint(addend * (_bias_scale(site) / unit)).astype(np.int64)
        of_bias = int(np.abs(addend).max(initial=0))
    real = unit / float(output_qparams(site).scale)

    def prepare(b: NDArray[Any], zeros: linear_raw.Int64) -> linear_raw.PreparedProduct:
        centred = b.astype(np.int64) - zeros
        weights = int(np.abs(centred).sum(0).max(initial=0))
        output_requantizer(site, real, way.max_magnitude * weights + of_bias)
        return lambda rows: exact_matmul(rows, centred)

    return prepare, output_requantizer(site, real, of_bias), addend, way


def _bias_scale(site: Site) -> NDArray[np.float64]:
    given = site.inputs[2] if len(site.inputs) > 2 else None
    if given is not None:
        return given.scale.astype(np.float64)
    x = _input_qparams(site, 0)
    if x.axis is not None:
        raise UnsupportedError(
            f"the bias of {site.op} has no scale of its own, and its input has several; give it one"
        )
    return np.asarray(x.scale.astype(np.float64) * weight_qparams(site).scale)


def _align_input(way: ScaleAlignment, kernel: Kernel) -> Kernel:
    return lambda inputs: kernel([None if inputs[0] is None else way(inputs[0]), *inputs[1:]])


def _conv(site: Site) -> Kernel:
    prepare, requantize, addend, way = _prepare_product(site)
    return _align_input(way, linear_raw.conv(site, prepare, requantize, addend, fill=0))


def _gemm(site: Site) -> Kernel:
    if site.attrs.get("alpha", 1.0) != 1.0 or site.attrs.get("transA", 0):
        raise UnsupportedError("fixed-point Gemm has no alpha and no transA; fold them")
    prepare, requantize, addend, way = _prepare_product(site)
    return _align_input(way, linear_raw.gemm(site, prepare, requantize, addend))


def _matmul(site: Site) -> Kernel:
    if constant_input(site, 1) is None and weight_qparams(site).axis is not None:
        raise UnsupportedError("the right operand of MatMul has several scales; give it one")
    prepare, requantize, _, way = _prepare_product(site)
    return _align_input(way, linear_raw.matmul(site, prepare, requantize))


KERNELS: Mapping[str, KernelMaker] = {
    **unary_functions.LITERT,
    **{
        op: partial(_data_movement_kernel, move=move)
        for op, move in data_movement.DATA_MOVEMENT_OPS.items()
    },
    **data_movement.INDEX_OPS,
    **{
        op: partial(_with_requantized_inputs, join=join)
        for op, join in data_movement.MULTI_INPUT_OPS.items()
    },
    **{op: partial(_comparison_kernel, comparison=how) for op, how in COMPARISONS.items()},
    **quantizers.LITERT,
    "Add": partial(_sum, sign=1),
    "Clip": _clip,
    "Conv": _conv,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Relu": _clip,
    "Requantize": _requantize,
    "Sub": partial(_sum, sign=-1),
}
