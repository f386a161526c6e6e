"""TPU-MLIR's data movement between tensors of different scales.

    other    q = (Sx / Sy)(x − Zx) + Zy,    by multiplier and right shift; unchanged if the parameters are equal
    Pad      q = round(value / Sy + Zy)     in the padding; ties away from zero

ForwardCalibration gives the output of a data movement its input's threshold, so that nothing is rescaled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.rounding import round_half_away
from ptq.executor.arithmetics import data_movement
from ptq.executor.arithmetics.litert_elementwise import make_unary_table_kernel
from ptq.executor.arithmetics.node_site import (
    Inputs,
    Kernel,
    KernelMaker,
    Site,
    get_activation_qparams,
    get_output_bounds,
    get_output_qparams,
    require_input,
)
from ptq.kernels.multiplier_shift import shift_right, to_mantissa_and_shift


def _rescale_input(site: Site, index: int, bits: int) -> Kernel:
    """Return the kernel that brings input ``index``, its only input, to the output's parameters."""
    x, y = get_activation_qparams(site, index), get_output_qparams(site)
    if x == y and site.clamp is None:
        return lambda inputs: require_input(site, inputs, 0)
    m, rshift = to_mantissa_and_shift(float(x.scale) / float(y.scale), bits)
    alone = replace(site, inputs=(x,), constants=())
    return make_unary_table_kernel(alone, lambda q: shift_right(q * m, rshift))


def _make_data_movement_kernel(site: Site, *, maker: KernelMaker, bits: int) -> Kernel:
    kernel = maker(site)
    if site.inputs[0] is None:
        return kernel
    rescale = _rescale_input(site, 0, bits)
    return lambda inputs: rescale([kernel(inputs)])


def _with_requantized_inputs(site: Site, *, maker: KernelMaker, bits: int) -> Kernel:
    rescalers = [
        None if x is None else _rescale_input(site, i, bits) for i, x in enumerate(site.inputs)
    ]
    kernel = maker(site)

    def converted(inputs: Inputs) -> NDArray[Any]:
        arrays = [require_input(site, inputs, i) for i in range(len(rescalers))]
        return kernel(
            [
                a if rescale is None else rescale([a])
                for rescale, a in zip(rescalers, arrays, strict=True)
            ]
        )

    return converted


def pad_value(site: Site) -> int:
    """Return the integer in a Pad's padding: round(value / Sy + Zy), saturated."""
    y, (lo, hi) = get_output_qparams(site), get_output_bounds(site)
    real = float(site.attrs.get("value", 0.0)) / float(y.scale) + float(y.zero_point)
    return int(np.clip(round_half_away(np.asarray(real)), lo, hi))


def _make_pad(site: Site, *, bits: int) -> Kernel:
    """Pad after rescaling, so that the value is an integer of the output."""
    rescale = _rescale_input(site, 0, bits)
    attrs = {key: v for key, v in site.attrs.items() if key != "value"}
    pad = data_movement.DATA_MOVEMENT_OPS["Pad"](replace(site, attrs=attrs))
    given = "value" in site.attrs or len(site.inputs) < 3 or site.inputs[2] is None
    filling = np.asarray(pad_value(site), get_output_qparams(site).qtype.dtype)

    def kernel(inputs: Inputs) -> NDArray[Any]:
        rest = list(inputs[1:]) + [None] * max(0, 3 - len(inputs))
        if given:
            rest[1] = filling
        return pad([rescale([require_input(site, inputs, 0)]), *rest])

    return kernel


def list_data_movement_makers(bits: int) -> Mapping[str, KernelMaker]:
    """Return the makers of all data movement operators."""
    return {
        **{
            op: partial(_make_data_movement_kernel, maker=maker, bits=bits)
            for op, maker in data_movement.DATA_MOVEMENT_OPS.items()
        },
        **{
            op: partial(_with_requantized_inputs, maker=maker, bits=bits)
            for op, maker in data_movement.MULTI_INPUT_OPS.items()
        },
        "Pad": partial(_make_pad, bits=bits),
    }
