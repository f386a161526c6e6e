"""How does TPU-MLIR move integers whose scales may differ?

    origin   q = (Sx / Sy)(x − Zx) + Zy,    by multiplier and right shift, or as it is where the parameters are one
    Pad      q = round(value / Sy + Zy)     in the padding; ties away from zero

ForwardCalibration gives the output of a movement its input's threshold, so that nothing is rescaled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.executor.arithmetics import data_movement
from ptq.executor.arithmetics.litert_elementwise import mapped
from ptq.executor.arithmetics.node_site import (
    Inputs,
    Kernel,
    Maker,
    Site,
    activation,
    bounds,
    required,
    result,
)
from ptq.kernels.float32 import round_half_away
from ptq.kernels.multiplier_shift import mantissa, shift_right


def _rescaled(site: Site, index: int, bits: int) -> Kernel:
    """Input ``index`` in the output's parameters; it is the only input of the kernel."""
    x, y = activation(site, index), result(site)
    if x == y and site.clamp is None:
        return lambda inputs: required(site, inputs, 0)
    m, rshift = mantissa(float(x.scale) / float(y.scale), bits)
    alone = replace(site, inputs=(x,), constants=())
    return mapped(alone, lambda q: shift_right(q * m, rshift))


def _moved(site: Site, *, move: Maker, bits: int) -> Kernel:
    kernel = move(site)
    if site.inputs[0] is None:
        return kernel
    rescale = _rescaled(site, 0, bits)
    return lambda inputs: rescale([kernel(inputs)])


def _joined(site: Site, *, join: Maker, bits: int) -> Kernel:
    ways = [None if x is None else _rescaled(site, i, bits) for i, x in enumerate(site.inputs)]
    kernel = join(site)

    def converted(inputs: Inputs) -> NDArray[Any]:
        parts = [required(site, inputs, i) for i in range(len(ways))]
        return kernel([p if way is None else way([p]) for way, p in zip(ways, parts, strict=True)])

    return converted


def pad_value(site: Site) -> int:
    """The integer in a Pad's padding: round(value / Sy + Zy), saturated."""
    y, (lo, hi) = result(site), bounds(site)
    real = float(site.attrs.get("value", 0.0)) / float(y.scale) + float(y.zero_point)
    return int(np.clip(round_half_away(np.asarray(real)), lo, hi))


def _pad(site: Site, *, bits: int) -> Kernel:
    """Pad after the rescaling, so that the value is one of the output's integers."""
    rescale = _rescaled(site, 0, bits)
    attrs = {key: v for key, v in site.attrs.items() if key != "value"}
    pad = data_movement.MOVES["Pad"](replace(site, attrs=attrs))
    given = "value" in site.attrs or len(site.inputs) < 3 or site.inputs[2] is None
    filling = np.asarray(pad_value(site), result(site).qtype.dtype)

    def kernel(inputs: Inputs) -> NDArray[Any]:
        rest = list(inputs[1:]) + [None] * max(0, 3 - len(inputs))
        if given:
            rest[1] = filling
        return pad([rescale([required(site, inputs, 0)]), *rest])

    return kernel


def moved(bits: int) -> Mapping[str, Maker]:
    """The makers of all movements."""
    return {
        **{op: partial(_moved, move=move, bits=bits) for op, move in data_movement.MOVES.items()},
        **{op: partial(_joined, join=join, bits=bits) for op, join in data_movement.JOINS.items()},
        "Pad": partial(_pad, bits=bits),
    }
