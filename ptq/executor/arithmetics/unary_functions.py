"""Functions of one value as tables of 256 entries, in arithmetics without a rule of their own for them.

    litert      d = sx · (x − zx);  q = zo + round(f(d) · (1 / so))             each operation rounded to float32
    tpu-mlir    q = round(f(sx · (x − zx)) / so + zo)                            float64; its Lut operator

round takes ties away from zero. LiteRT fills its own tables by the first rule (LUTPopulate), TPU-MLIR by the second
(create_lookup_table). ``fixed-point`` uses the first rule. A device needs the 256 bytes and no arithmetic.

Error bound, in LSB of the output, before saturation: 1/2 for the second rule, 1/2 + 2^-14 for the first. A value that
does not saturate is below 2^8 LSB. It has float32's relative error 2^-24 in d, in f, in 1/so and in the product:
2^8 · 2^-24 · (3 + |d·f'(d) / f(d)|), while |d·f'(d) / f(d)| ≤ 2^6. Next to a discontinuity (Ceil, Floor, Round, Sign,
ThresholdedRelu) the side is that of d in float32.

A function that is infinite saturates. A function that is not defined (Sqrt and Log of a negative number) gives the
lowest integer, as LiteRT's LOG does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.core.rounding import round_half_away
from ptq.executor.arithmetics.node_site import (
    Kernel,
    KernelMaker,
    Site,
    get_activation_qparams,
    get_output_bounds,
    get_output_qparams,
    require_input,
)
from ptq.kernels.lookup import lookup, tabulate
from ptq.kernels.real_functions import FUNCTIONS, get_real_function

OutputFunction = Callable[[Site, NDArray[np.int64]], NDArray[np.float64]]
"""f of x − zx in LSB of the output, with the zero point added."""

_SATURATING_LSB = 2.0**20
"""LSB beyond every output."""


def _compute_in_float32(site: Site, q: NDArray[np.int64]) -> NDArray[np.float64]:
    d = get_activation_qparams(site).scale * q.astype(np.float32)
    with np.errstate(over="ignore"):
        value = get_real_function(site.op, site.attrs)(d.astype(np.float64)).astype(np.float32)
        lsb = value * (np.float32(1) / get_output_qparams(site).scale)
    return _round_saturating(lsb.astype(np.float64)) + int(get_output_qparams(site).zero_point)


def _compute_in_float64(site: Site, q: NDArray[np.int64]) -> NDArray[np.float64]:
    x, y = get_activation_qparams(site), get_output_qparams(site)
    d = float(x.scale) * q.astype(np.float64)
    lsb = get_real_function(site.op, site.attrs)(d) / float(y.scale)
    return _round_saturating(lsb + int(y.zero_point))


def _round_saturating(lsb: NDArray[np.float64]) -> NDArray[np.float64]:
    return round_half_away(np.clip(lsb, -_SATURATING_LSB, _SATURATING_LSB))


def _make_table_kernel(site: Site, rounded: OutputFunction) -> Kernel:
    if site.op == "Pow" and np.size(site.attrs.get("exponent", ())) != 1:
        raise UnsupportedError("the exponent of Pow is not one constant; leave the node float")
    x, y = get_activation_qparams(site), get_output_qparams(site)
    lo, hi = get_output_bounds(site)

    def function(q: NDArray[np.int64]) -> NDArray[np.int64]:
        value = rounded(site, q - int(x.zero_point))
        return np.clip(np.where(np.isnan(value), lo, value), lo, hi).astype(y.qtype.dtype)

    table = tabulate(function, x.qtype)
    return lambda inputs: lookup(table, require_input(site, inputs, 0))


LITERT: Mapping[str, KernelMaker] = {
    op: lambda site: _make_table_kernel(site, _compute_in_float32) for op in FUNCTIONS
}
TPU_MLIR: Mapping[str, KernelMaker] = {
    op: lambda site: _make_table_kernel(site, _compute_in_float64) for op in FUNCTIONS
}
