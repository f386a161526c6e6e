"""QuantizeLinear and DequantizeLinear of each runtime: between float tensors and integers.

    DequantizeLinear  r = s · (q − z)                       one float32 product, in every arithmetic
    QuantizeLinear    ONNX Runtime: q = rne(r / s) + z      ties to even
                      LiteRT:       q = round(r / s) + z    ties away from zero

The quotient is float32 in both; the result saturates. What is not a number is the lowest integer in ONNX Runtime.
LiteRT takes it, and a quotient of 2^31 or more of either sign, for the lowest int32, and adds z, which may wrap.
Only ONNX Runtime's takes a scale for each channel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.executor.arithmetics.node_site import (
    Inputs,
    Kernel,
    KernelMaker,
    Site,
    get_activation_qparams,
    get_output_qparams,
    require_input,
)


def _make_dequantize(site: Site) -> Kernel:
    params = site.inputs[0] or get_activation_qparams(site)
    return lambda inputs: params.dequantize(require_input(site, inputs, 0))


def _make_ort_quantize(site: Site) -> Kernel:
    params = site.outputs[0] or get_output_qparams(site)

    def kernel(inputs: Inputs) -> NDArray[Any]:
        x = require_input(site, inputs, 0)
        with np.errstate(over="ignore", invalid="ignore"):
            return replace_nan(params.quantize(x), x, params.qtype.lo)

    return kernel


def replace_nan(q: NDArray[Any], x: NDArray[Any], instead: int) -> NDArray[Any]:
    """Return the integers of x with another one where x is not a number."""
    if not np.isnan(np.max(x, initial=-np.inf)):  # one pass, and no array
        return q
    return np.where(np.isnan(x), q.dtype.type(instead), q)


def _make_litert_quantize(site: Site) -> Kernel:
    y = get_output_qparams(site)
    # the lowest int32, which a conversion beyond int32 gives, plus the zero point
    beyond = y.qtype.dtype.type(y.qtype.hi if y.zero_point < 0 else y.qtype.lo)

    def kernel(inputs: Inputs) -> NDArray[Any]:
        x = require_input(site, inputs, 0)
        with np.errstate(over="ignore", invalid="ignore"):
            is_within = np.abs(x / y.scale) < 2.0**31
            q = y.quantize_half_away(x)
        return q if is_within.all() else np.where(is_within, q, beyond)

    return kernel


ORT: Mapping[str, KernelMaker] = {
    "DequantizeLinear": _make_dequantize,
    "QuantizeLinear": _make_ort_quantize,
}
LITERT: Mapping[str, KernelMaker] = {
    "DequantizeLinear": _make_dequantize,
    "QuantizeLinear": _make_litert_quantize,
}
