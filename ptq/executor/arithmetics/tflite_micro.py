"""tflite-micro's 8-bit kernels, where they differ from LiteRT's reference kernels.

    Gemm, MatMul by a constant  q = zo + MBQM(acc, sx · sw[c] / so)     two roundings, not one in float64
    MatMul of activations       q = zo + MBQM(acc, sa · sb / so)        multiplier in float64, not float32
    Mul                         q = zo + MBQM((a − za)(b − zb), sa · sb / so)        the same
    Abs, Relu, LeakyRelu, Div,  by sx / so, sa / (sb · so) and sx · sa / so          the same
    PRelu
    Clip to [0, 6]              q = clamp(x, zx, zx + round(6 / sx))    RELU6 does not rescale
    SpaceToBatchND              pads with the integer 0, not with the zero point: the offset is never set, and is
                                0 in fresh memory
    Sigmoid, Tanh               in fixed point (`fixed_point_functions`), not by a table of float values

    Exp, Gelu, Tile             refused: the runtime does not load a file with them (`LACKING`)

ReduceSum has the formula of `litert`; only LiteRT's own kernel differs from it. All other operators are the same.
Found by experiment with tflite-micro 0.dev20261023182759.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.executor.arithmetics import fixed_point_functions, linear, litert
from ptq.executor.arithmetics.litert_elementwise import (
    compute_activation_bounds,
    list_activation_makers,
    make_binary_table_kernel,
    require_same_scale,
)
from ptq.executor.arithmetics.litert_functions import make_abs_kernel, make_div_kernel
from ptq.executor.arithmetics.litert_nonlinear import make_prelu_kernel
from ptq.executor.arithmetics.litert_requantizer import make_gemmlowp_requantizer
from ptq.executor.arithmetics.node_site import (
    Inputs,
    Kernel,
    KernelMaker,
    Site,
    compute_scale_ratio,
    get_activation_qparams,
    get_constant_input,
    get_output_qparams,
    get_weight_qparams,
    require_input,
)
from ptq.kernels.fixed_point import rescale
from ptq.kernels.shape import move_space_to_batch

_RELU6 = (0.0, 6.0)


def _make_matmul(site: Site) -> Kernel:
    right = (
        get_weight_qparams(site)
        if get_constant_input(site, 1) is not None
        else get_activation_qparams(site, 1)
    )
    product = get_activation_qparams(site).scale.astype(np.float64) * right.scale
    return linear.make_matmul_kernel(
        site, make_gemmlowp_requantizer(site, product / float(get_output_qparams(site).scale))
    )


def _make_mul(site: Site) -> Kernel:
    product = float(get_activation_qparams(site, 0).scale) * float(
        get_activation_qparams(site, 1).scale
    )
    multiplier = product / float(get_output_qparams(site).scale)
    return make_binary_table_kernel(site, lambda qa, qb: rescale(qa * qb, multiplier))


def _make_abs(site: Site) -> Kernel:
    return make_abs_kernel(site, compute_scale_ratio(site))


def _make_prelu(site: Site) -> Kernel:
    product = float(get_activation_qparams(site, 0).scale) * float(
        get_activation_qparams(site, 1).scale
    )
    return make_prelu_kernel(
        site, compute_scale_ratio(site), product / float(get_output_qparams(site).scale)
    )


def _make_div(site: Site) -> Kernel:
    product = float(get_activation_qparams(site, 1).scale) * float(get_output_qparams(site).scale)
    return make_div_kernel(site, float(get_activation_qparams(site, 0).scale) / product)


def _make_clip(site: Site) -> Kernel:
    lowest, highest = site.attrs.get("min"), site.attrs.get("max")
    if lowest is None or highest is None or (float(lowest), float(highest)) != _RELU6:
        return litert.KERNELS["Clip"](site)
    lo, hi = compute_activation_bounds(get_activation_qparams(site), *_RELU6)
    get_output_qparams(site)
    return lambda inputs: np.clip(require_input(site, inputs, 0), lo, hi)


def _make_space_to_batch(site: Site) -> Kernel:
    block, paddings = tuple(site.attrs["block"]), site.attrs["paddings"]

    def kernel(inputs: Inputs) -> NDArray[Any]:
        return move_space_to_batch(require_input(site, inputs, 0), block, paddings, 0)

    return kernel


LACKING: Mapping[str, str] = {"Exp": "EXP of int8", "Gelu": "GELU", "Tile": "TILE"}
"""By operator, what LiteRT's file has for it and tflite-micro has no kernel for. It loads no file that holds one."""


def _refuse(site: Site) -> Kernel:
    raise UnsupportedError(
        f"tflite-micro has no kernel of {LACKING[site.op]} and loads no file with it; replace the operator"
    )


KERNELS: Mapping[str, KernelMaker] = {
    **litert.KERNELS,
    **list_activation_makers(compute_scale_ratio),
    **dict.fromkeys(LACKING, _refuse),
    "Abs": _make_abs,
    "Clip": _make_clip,
    "Div": _make_div,
    "Gemm": litert.make_gemmlowp_gemm_kernel,
    "MatMul": _make_matmul,
    "Mul": _make_mul,
    "PRelu": _make_prelu,
    "Sigmoid": fixed_point_functions.make_sigmoid_kernel,
    "SpaceToBatchND": require_same_scale(_make_space_to_batch),
    "Tanh": fixed_point_functions.make_tanh_kernel,
}
