"""Fixed-point arithmetic that aligns tensors of different scales by shifts (scale alignment).

A scale is an 8-bit mantissa and a power of two (`fixed_point_align`). An integer n becomes a fixed-point number,

    x_i = ((n − zero_point) · i_s) << (maxfracbits − fracbits),      scale ≈ i_s · 2^-fracbits

with the implicit scale 2^-maxfracbits, which the rescaling to the output contains:

    Add, Sub, Concat     q = Zy + (x_i [± y_i]) · 2^-maxfracbits / Sy                  aligned channel by channel
    Conv, Gemm, MatMul   q = Zy + (Σ x_i (w − Zw) + b_i) · 2^-maxfracbits · Sw[c] / Sy
    Requantize           q = Zy + x_i · 2^-maxfracbits / Sy                             Relu, Clip: clamped

Products sum over channels, so a per-channel input is aligned to one scalar maxfracbits. The bias becomes b_i, in
units of 2^-maxfracbits · Sw[c], before any data. Concat is our extension, and so are Max, Min, Where and comparisons:
they too combine inputs of different scales. The axis of a per-channel activation counts in the layout of the arrays
that a kernel gets.

Source: D. Corvoysier, Aligning quantization scales before incompatible operations, 2023. Three of its formulas have
slips (derived in the tests). The shift is maxfracbits − fracbits. The exponent of b is fracbits_b. 2^-maxfracbits
belongs to the multiplier of the rescaling, not to the output's scale.
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
from ptq.executor.arithmetics import data_movement, linear, linear_raw, quantizers, unary_functions
from ptq.executor.arithmetics.activation_clamp import with_clamp
from ptq.executor.arithmetics.fixed_point_align import (
    ScaleAlignment,
    align_scales,
    make_output_requantizer,
    reshape_per_channel,
)
from ptq.executor.arithmetics.min_max import COMPARISONS, BinaryFunction
from ptq.executor.arithmetics.node_site import (
    Inputs,
    Kernel,
    KernelMaker,
    Site,
    get_constant_input,
    get_output_qparams,
    get_weight_qparams,
    require_input,
)
from ptq.kernels.im2col import multiply_exactly


def _get_input_qparams(site: Site, index: int) -> QuantParams:
    """Return the parameters of an 8-bit input, per tensor or per channel."""
    params = site.inputs[index] if index < len(site.inputs) else None
    if params is None or params.qtype.bits != 8:
        raise UnsupportedError(f"input {index} of {site.op} is not 8-bit; leave the node float")
    return params


def _rescale_factor(site: Site, maxfracbits: NDArray[np.int64]) -> NDArray[np.float64]:
    unit = np.ldexp(1.0, -maxfracbits.astype(np.int32))
    return np.asarray(unit / float(get_output_qparams(site).scale))


def _make_sum(site: Site, *, sign: int) -> Kernel:
    (a, b), maxfracbits = align_scales([_get_input_qparams(site, 0), _get_input_qparams(site, 1)])
    real = _rescale_factor(site, maxfracbits)

    def kernel(inputs: Inputs) -> NDArray[Any]:
        left, right = a(require_input(site, inputs, 0)), b(require_input(site, inputs, 1))
        total = left + sign * right
        axis = a.axis if a.axis is not None else b.axis
        requantize = make_output_requantizer(
            site, reshape_per_channel(real, axis, total.ndim), a.max_magnitude + b.max_magnitude
        )
        return requantize(total)

    return kernel


def _with_requantized_inputs(site: Site, *, maker: KernelMaker) -> Kernel:
    quantized = [i for i, params in enumerate(site.inputs) if params is not None]
    alignments, maxfracbits = align_scales(
        [_get_input_qparams(site, i) for i in quantized], one_scale=True
    )
    requantize = make_output_requantizer(
        site,
        _rescale_factor(site, maxfracbits),
        max(alignment.max_magnitude for alignment in alignments),
    )
    kernel = maker(site)

    def run(inputs: Inputs) -> NDArray[Any]:
        arrays = [require_input(site, inputs, i) for i in range(len(site.inputs))]
        for i, alignment in zip(quantized, alignments, strict=True):
            arrays[i] = alignment(arrays[i])
        return requantize(kernel(arrays))

    return run


def _make_comparison_kernel(site: Site, *, comparison: BinaryFunction) -> Kernel:
    """Aligned tensors have one unit, so their integers are compared directly."""
    (a, b), _ = align_scales(
        [_get_input_qparams(site, 0), _get_input_qparams(site, 1)], one_scale=True
    )
    return lambda inputs: comparison(
        a(require_input(site, inputs, 0)), b(require_input(site, inputs, 1))
    )


def _make_requantize(site: Site) -> Kernel:
    (alignment,), maxfracbits = align_scales([_get_input_qparams(site, 0)])
    real = _rescale_factor(site, maxfracbits)

    def kernel(inputs: Inputs) -> NDArray[Any]:
        x = alignment(require_input(site, inputs, 0))
        return make_output_requantizer(
            site, reshape_per_channel(real, alignment.axis, x.ndim), alignment.max_magnitude
        )(x)

    return kernel


def _make_clip(site: Site) -> Kernel:
    return _make_requantize(with_clamp(site))


def _make_data_movement_kernel(site: Site, *, maker: KernelMaker) -> Kernel:
    """Data movement; if the scales differ, the input is rescaled first."""
    x, y = site.inputs[0], site.outputs[0]
    if x is None or (x == y and site.clamp is None):
        return maker(site)
    requantize = _make_requantize(site)
    kernel = maker(replace(site, inputs=(y, *site.inputs[1:])))
    return lambda inputs: kernel([requantize(inputs), *inputs[1:]])


def _prepare_product(
    site: Site,
) -> tuple[
    linear_raw.ProductPreparer,
    linear_raw.AllChannelsRequantizer,
    NDArray[Any] | None,
    ScaleAlignment,
]:
    """Return what a product of aligned rows needs: product, requantizer, bias, and alignment of the input."""
    (alignment,), maxfracbits = align_scales([_get_input_qparams(site, 0)], one_scale=True)
    w_scale = get_weight_qparams(site).scale.astype(np.float64)
    unit = w_scale * np.ldexp(1.0, -int(maxfracbits))
    addend = linear.get_constant_bias(site)
    max_bias = 0
    if addend is not None:
        addend = np.rint(addend * (_compute_bias_scale(site) / unit)).astype(np.int64)
        max_bias = int(np.abs(addend).max(initial=0))
    real = unit / float(get_output_qparams(site).scale)

    def prepare(b: NDArray[Any], zeros: linear_raw.Int64) -> linear_raw.PreparedProduct:
        centred = b.astype(np.int64) - zeros
        weights = int(np.abs(centred).sum(0).max(initial=0))
        make_output_requantizer(site, real, alignment.max_magnitude * weights + max_bias)
        return lambda rows: multiply_exactly(rows, centred)

    return prepare, make_output_requantizer(site, real, max_bias), addend, alignment


def _compute_bias_scale(site: Site) -> NDArray[np.float64]:
    given = site.inputs[2] if len(site.inputs) > 2 else None
    if given is not None:
        return given.scale.astype(np.float64)
    x = _get_input_qparams(site, 0)
    if x.axis is not None:
        raise UnsupportedError(
            f"the bias of {site.op} needs its own scale, because its input has several; quantize the bias"
        )
    return np.asarray(x.scale.astype(np.float64) * get_weight_qparams(site).scale)


def _align_input(alignment: ScaleAlignment, kernel: Kernel) -> Kernel:
    return lambda inputs: kernel([None if inputs[0] is None else alignment(inputs[0]), *inputs[1:]])


def _make_conv(site: Site) -> Kernel:
    prepare, requantize, addend, alignment = _prepare_product(site)
    return _align_input(
        alignment, linear_raw.make_raw_conv_kernel(site, prepare, requantize, addend, fill=0)
    )


def _make_gemm(site: Site) -> Kernel:
    if site.attrs.get("alpha", 1.0) != 1.0 or site.attrs.get("transA", 0):
        raise UnsupportedError("fixed-point Gemm has no alpha and no transA; fold them")
    prepare, requantize, addend, alignment = _prepare_product(site)
    return _align_input(
        alignment, linear_raw.make_raw_gemm_kernel(site, prepare, requantize, addend)
    )


def _make_matmul(site: Site) -> Kernel:
    if get_constant_input(site, 1) is None and get_weight_qparams(site).axis is not None:
        raise UnsupportedError("the right operand of MatMul has several scales; give it one")
    prepare, requantize, _, alignment = _prepare_product(site)
    return _align_input(alignment, linear_raw.make_raw_matmul_kernel(site, prepare, requantize))


KERNELS: Mapping[str, KernelMaker] = {
    **unary_functions.LITERT,
    **{
        op: partial(_make_data_movement_kernel, maker=maker)
        for op, maker in data_movement.DATA_MOVEMENT_OPS.items()
    },
    **data_movement.INDEX_OPS,
    **{
        op: partial(_with_requantized_inputs, maker=maker)
        for op, maker in data_movement.MULTI_INPUT_OPS.items()
    },
    **{op: partial(_make_comparison_kernel, comparison=how) for op, how in COMPARISONS.items()},
    **quantizers.LITERT,
    "Add": partial(_make_sum, sign=1),
    "Clip": _make_clip,
    "Conv": _make_conv,
    "Gemm": _make_gemm,
    "MatMul": _make_matmul,
    "Relu": _make_clip,
    "Requantize": _make_requantize,
    "Sub": partial(_make_sum, sign=-1),
}
