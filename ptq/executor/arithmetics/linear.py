"""Conv, ConvTranspose, Gemm and MatMul on exact sums of products: the same in every arithmetic.

Arithmetics differ only in the requantizer (`ptq.kernels.requantizer`), which they pass in. The channels of a MatMul
or Gemm are the columns of its right operand.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.core.types import FloatArray
from ptq.executor.arithmetics.node_site import (
    Inputs,
    Kernel,
    Site,
    get_activation_qparams,
    get_constant_input,
    get_weight_qparams,
    require_input,
)
from ptq.kernels.conv import prepare_convolution
from ptq.kernels.conv_transpose import prepare_transposed_convolution
from ptq.kernels.matmul import prepare_matmul_by_constant, prepare_matmul_of_activations
from ptq.kernels.requantizer import Accumulator, Channels, Requantizer
from ptq.model.weights.matrix_layout import get_matrix_channel_axis, view_input_output_matrix


def make_float_rescaler(scale: FloatArray) -> Requantizer:
    """Return the requantizer of a float output: float32 products with a scale, per tensor or per channel."""
    if scale.size == 1:
        scale = scale.reshape(())

    def requantize(acc: Accumulator, channels: Channels) -> FloatArray:
        value = acc.astype(np.float32, copy=False)
        return value * (scale[channels] if scale.ndim else scale)

    return requantize


def get_constant_weight(site: Site) -> NDArray[Any]:
    """Return the integers of input 1.

    Raises:
        UnsupportedError: They are computed at run time.
    """
    w = get_constant_input(site, 1)
    if w is None:
        raise UnsupportedError(f"{site.op} needs a constant weight; leave the node float")
    return w


def get_gemm_weight(site: Site) -> NDArray[Any]:
    """Return the constant B of a Gemm as (K, N), whatever ``transB`` is.

    Raises:
        UnsupportedError: It is computed at run time.
    """
    return np.ascontiguousarray(view_input_output_matrix(get_constant_weight(site), site.attrs))


def require_unscaled_bias(site: Site) -> None:
    """Check that ``beta`` does not scale the C of a Gemm.

    Raises:
        UnsupportedError: beta is not 1.
    """
    if site.attrs.get("beta", 1.0) != 1.0:
        raise UnsupportedError("Gemm's beta has no integer form; fold it into C")


def get_constant_bias(site: Site) -> NDArray[Any] | None:
    """Return the integers of input 2, or None if the node has no bias.

    Raises:
        UnsupportedError: They are computed at run time.
    """
    bias = get_constant_input(site, 2)
    if bias is None and len(site.inputs) > 2 and site.inputs[2] is not None:
        raise UnsupportedError(f"{site.op} needs a constant bias; leave the node float")
    return bias


def _get_channel_bias(site: Site, channels: int) -> NDArray[Any] | None:
    bias = get_constant_bias(site)
    if bias is not None and bias.shape != (channels,):
        raise UnsupportedError(
            f"the bias of {site.op} has shape {[*bias.shape]}, not one value for each of {channels} "
            "channels; leave the node float"
        )
    return bias


def get_spatial_attributes(site: Site, rank: int) -> dict[str, Any]:
    """Return the attributes that Conv and ConvTranspose share, with ONNX's defaults."""
    return {
        "strides": tuple(site.attrs.get("strides", (1,) * rank)),
        "pads": tuple(site.attrs.get("pads", (0,) * 2 * rank)),
        "dilations": tuple(site.attrs.get("dilations", (1,) * rank)),
        "group": int(site.attrs.get("group", 1)),
        "auto_pad": site.attrs.get("auto_pad", "NOTSET"),
    }


def _check_channels(site: Site, channels: int) -> None:
    if get_weight_qparams(site).scale.size not in (1, channels):
        raise UnsupportedError(
            f"the weight of {site.op} has {get_weight_qparams(site).scale.size} scales for {channels} output "
            "channels; give it one, or one for each channel"
        )


def make_conv_kernel(site: Site, requantize: Requantizer) -> Kernel:
    """Return the kernel of a convolution of channels-last x with constant weights O·spatial·I."""
    w, x = get_constant_weight(site), get_activation_qparams(site)
    _check_channels(site, len(w))
    core = prepare_convolution(
        w,
        _get_channel_bias(site, len(w)),
        x_qtype=x.qtype,
        x_zero_point=int(x.zero_point),
        w_zero_point=get_weight_qparams(site).zero_point,
        **get_spatial_attributes(site, w.ndim - 2),
    )
    return lambda inputs: core(require_input(site, inputs, 0), requantize)


def make_conv_transpose_kernel(site: Site, requantize: Requantizer) -> Kernel:
    """Return the kernel of a transposed convolution of channels-last x with constant weights O·spatial·I."""
    w, x = get_constant_weight(site), get_activation_qparams(site)
    rank, params = w.ndim - 2, get_weight_qparams(site)
    _check_channels(site, len(w))
    shape = site.attrs.get("output_shape")
    core = prepare_transposed_convolution(
        w,
        _get_channel_bias(site, len(w)),
        x_qtype=x.qtype,
        x_zero_point=int(x.zero_point),
        w_zero_point=params.zero_point,
        output_padding=tuple(site.attrs.get("output_padding", (0,) * rank)),
        output_shape=None if shape is None else tuple(shape),
        **get_spatial_attributes(site, rank),
    )
    return lambda inputs: core(require_input(site, inputs, 0), requantize)


def _get_column_bias(site: Site, columns: int) -> NDArray[Any] | None:
    """Return Gemm's C as one value for each column."""
    bias = get_constant_bias(site)
    if bias is None:
        return None
    require_column_bias(bias, columns)
    return np.broadcast_to(bias.reshape(-1), (columns,))


def require_column_bias(bias: NDArray[Any], columns: int) -> None:
    """Check that the C of a Gemm has one value for each column, or one for all.

    ONNX broadcasts C in one direction to (rows, columns), so it may also be (rows, 1) or (rows, columns). Models that
    ptq prepares do not have these: `ptq.rewrite.prepare.normalize_gemm` leaves them to an Add.

    Raises:
        UnsupportedError: C has another shape.
    """
    if bias.size != 1 and (bias.size != columns or bias.shape[-1] != columns):
        raise UnsupportedError(
            f"the C of Gemm has shape {[*bias.shape]}, not one value for each of {columns} columns; "
            "leave the node float"
        )


def make_gemm_kernel(site: Site, requantize: Requantizer) -> Kernel:
    """Return the kernel of a Gemm: the matrix product plus C. The requantizer applies alpha.

    Raises:
        UnsupportedError: B is not constant, beta scales C, or C is not one value for each column.
    """
    b = get_gemm_weight(site)
    bias = _get_column_bias(site, b.shape[-1])
    if bias is not None:
        require_unscaled_bias(site)
    return _make_constant_matmul(site, b, bias, requantize)


def make_matmul_kernel(site: Site, requantize: Requantizer) -> Kernel:
    """Return the kernel of a product of two activations, or of an activation and a constant."""
    b = get_constant_input(site, 1)
    if b is not None:
        return _make_constant_matmul(site, b, None, requantize)
    if get_weight_qparams(site).axis is not None:
        # A right operand that is computed at run time, with a scale for each column: prepared for every feed.
        return lambda inputs: _make_constant_matmul(
            site, require_input(site, inputs, 1), None, requantize
        )(inputs)
    left, right = get_activation_qparams(site), get_activation_qparams(site, 1)
    core = prepare_matmul_of_activations(
        a_qtype=left.qtype,
        a_zero_point=int(left.zero_point),
        b_qtype=right.qtype,
        b_zero_point=int(right.zero_point),
    )
    return lambda inputs: core(
        require_input(site, inputs, 0), require_input(site, inputs, 1), requantize
    )


def _make_constant_matmul(
    site: Site, b: NDArray[Any], bias: NDArray[Any] | None, requantize: Requantizer
) -> Kernel:
    left, right = get_activation_qparams(site), get_weight_qparams(site)
    if right.axis is not None and right.axis % b.ndim != get_matrix_channel_axis(
        site.attrs, b.ndim
    ):
        raise UnsupportedError(
            f"the weight of {site.op} has a scale for each row; give it one for each column"
        )
    core = prepare_matmul_by_constant(
        b,
        bias,
        a_qtype=left.qtype,
        a_zero_point=int(left.zero_point),
        b_zero_point=right.zero_point,
        b_qtype=right.qtype,
    )
    transposed = bool(site.attrs.get("transA", 0))

    def kernel(inputs: Inputs) -> NDArray[Any]:
        a = require_input(site, inputs, 0)
        return core(np.ascontiguousarray(a.T) if transposed else a, requantize)

    return kernel
