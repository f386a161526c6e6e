"""QuantizeLinear and DequantizeLinear of each runtime: between float tensors and integers.

    DequantizeLinear  r = s · (q − z)                       one float32 product, in every arithmetic
    QuantizeLinear    ONNX Runtime: q = rne(r / s) + z      ties to even
                      LiteRT:       q = round(r / s) + z    ties away from zero

The quotient is float32 in both; the result saturates. Only ONNX Runtime's takes a scale for each channel.
"""

from __future__ import annotations

from collections.abc import Mapping

from ptq.executor.arithmetics.node_site import (
    Kernel,
    KernelMaker,
    Site,
    activation_qparams,
    output_qparams,
    require_input,
)


def _dequantize(site: Site) -> Kernel:
    params = site.inputs[0] or activation_qparams(site)
    return lambda inputs: params.dequantize(require_input(site, inputs, 0))


def _ort_quantize(site: Site) -> Kernel:
    params = site.outputs[0] or output_qparams(site)
    return lambda inputs: params.quantize(require_input(site, inputs, 0))


def _litert_quantize(site: Site) -> Kernel:
    y = output_qparams(site)
    return lambda inputs: y.quantize_half_away(require_input(site, inputs, 0))


ORT: Mapping[str, KernelMaker] = {
    "DequantizeLinear": _dequantize,
    "QuantizeLinear": _ort_quantize,
}
LITERT: Mapping[str, KernelMaker] = {
    "DequantizeLinear": _dequantize,
    "QuantizeLinear": _litert_quantize,
}
