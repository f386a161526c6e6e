"""LiteRT's 8-bit reference kernels, to the bit.

    Conv, ConvTranspose        q = zo + MBQM(acc, sx · sw[c] / so)                        the product in float64
    Gemm, MatMul by a constant q = zo + round_half_away(acc · (sx · sw[c] / so))          FULLY_CONNECTED: float64
    MatMul of activations      q = zo + MBQM(acc, float32(sa · sb) / so)                  BATCH_MATMUL

MBQM is gemmlowp's product with two roundings (`ptq.kernels.fixed_point`). The rules were found by experiment with
ai-edge-litert 2.3.0, with its reference kernels forced (BUILTIN_REF). They agree with LiteRT's 8-bit quantization
specification. tflite-micro computes FULLY_CONNECTED as gemmlowp does: ``make_gemmlowp_gemm_kernel``.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.executor.arithmetics import (
    data_movement,
    linear,
    litert_elementwise,
    litert_functions,
    litert_image,
    litert_nonlinear,
    litert_pool,
    litert_select,
    litert_softmax,
    normalization,
    quantizers,
    unary_functions,
)
from ptq.executor.arithmetics.litert_elementwise import require_same_scale
from ptq.executor.arithmetics.litert_requantizer import (
    make_float64_requantizer,
    make_gemmlowp_requantizer,
)
from ptq.executor.arithmetics.node_site import (
    Kernel,
    KernelMaker,
    Site,
    compute_product_scale_ratio,
    get_activation_qparams,
    get_constant_input,
    get_output_qparams,
)
from ptq.kernels.requantizer import Requantizer


def _compute_gemm_factor(site: Site) -> NDArray[np.float64]:
    if site.attrs.get("alpha", 1.0) != 1.0:
        raise UnsupportedError("FULLY_CONNECTED has no alpha; fold Gemm's into B and C")
    return compute_product_scale_ratio(site)


def _make_conv(site: Site) -> Kernel:
    return linear.make_conv_kernel(
        site, make_gemmlowp_requantizer(site, compute_product_scale_ratio(site))
    )


def _make_conv_transpose(site: Site) -> Kernel:
    return linear.make_conv_transpose_kernel(
        site, make_gemmlowp_requantizer(site, compute_product_scale_ratio(site))
    )


def _make_gemm(site: Site) -> Kernel:
    return linear.make_gemm_kernel(site, make_float64_requantizer(site, _compute_gemm_factor(site)))


def make_gemmlowp_gemm_kernel(site: Site) -> Kernel:
    """Return the kernel of FULLY_CONNECTED in tflite-micro and LiteRT up to 2.14: two integer roundings."""
    return linear.make_gemm_kernel(
        site, make_gemmlowp_requantizer(site, _compute_gemm_factor(site))
    )


def _make_matmul(site: Site) -> Kernel:
    """BATCH_MATMUL, or FULLY_CONNECTED if the right operand is a constant matrix."""
    right = get_constant_input(site, 1)
    requantize: Requantizer
    if right is not None and right.ndim == 2:
        requantize = make_float64_requantizer(site, compute_product_scale_ratio(site))
    else:
        in_float32 = get_activation_qparams(site).scale * get_activation_qparams(site, 1).scale
        requantize = make_gemmlowp_requantizer(
            site, np.float64(in_float32) / float(get_output_qparams(site).scale)
        )
    return linear.make_matmul_kernel(site, requantize)


KERNELS: Mapping[str, KernelMaker] = {
    **unary_functions.LITERT,
    **{op: require_same_scale(make) for op, make in data_movement.LITERT_DATA_MOVEMENT_OPS.items()},
    **{
        op: require_same_scale(make, all_inputs=True)
        for op, make in data_movement.MULTI_INPUT_OPS.items()
    },
    **data_movement.INDEX_OPS,
    **litert_elementwise.KERNELS,
    **litert_functions.KERNELS,
    **litert_image.KERNELS,
    **litert_nonlinear.KERNELS,
    **litert_pool.KERNELS,
    **litert_select.KERNELS,
    **litert_softmax.KERNELS,
    **normalization.KERNELS,
    **quantizers.LITERT,
    "Conv": _make_conv,
    "ConvTranspose": _make_conv_transpose,
    "Gemm": _make_gemm,
    "MatMul": _make_matmul,
}
