"""QuantizeLinear and DequantizeLinear of each runtime: between float tensors and integers.

    DequantizeLinear  r = s · (q − z)                       one float32 product, in every arithmetic
    QuantizeLinear    ONNX Runtime: q = rne(r / s) + z      ties to even
                      LiteRT:       q = round(r / s) + z    ties away from zero

The quotient is float32 in both; the result saturates. Only ONNX Runtime's takes a scale for each channel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.executor.arithmetics.litert_elementwise import saturate_to_output
from ptq.executor.arithmetics.node_site import (
    Inputs,
    Kernel,
    KernelMaker,
    Site,
    activation_qparams,
    output_qparams,
    require_input,
)
from ptq.kernels.float32 import round_half_away


def _dequantize(site: Site) -> Kernel:
    params = site.inputs[0] or activation_qparams(site)
    return lambda inputs: params.dequantize(require_input(site, inputs, 0))


def _ort_quantize(site: Site) -> Kernel:
    params = site.outputs[0] or output_qparams(site)
    return lambda inputs: params.quantize(require_input(site, inputs, 0))


def _litert_quantize(site: Site) -> Kernel:
    y = output_qparams(site)

    def kernel(inputs: Inputs) -> NDArray[Any]:
        ratio = np.asarray(require_input(site, inputs, 0), np.float32) / y.scale
        return saturate_to_output(site, round_half_away(ratio))

    return kernel


ORT: Mapping[str, KernelMaker] = {
    "DequantizeLinear": _dequantize,
    "QuantizeLinear": _ort_quantize,
}
LITERT: Mapping[str, KernelMaker] = {
    "DequantizeLinear": _dequantize,
    "QuantizeLinear": _litert_quantize,
}
