"""LiteRT's comparisons of 8-bit integers.

A comparison first converts each side to a common unit of 2^-8,

    c = MBQM((q − z) · 2^8, s)        multiplier from float64

and compares these: real values that differ by less than the unit are equal. Above a scale of 1 the right shift has a
negative number of bits, which C++ does not define: LiteRT on x86-64 returns the sign, with +1 for zero. From 2^16 on
that holds for its vector instructions only: an operand that is broadcast along the last axis gets other integers.

Maximum, minimum and their reductions and positions read the raw integers, as in all arithmetics
(`ptq.executor.arithmetics.min_max`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.core.types import QuantParams
from ptq.executor.arithmetics.min_max import COMPARISONS, BinaryFunction
from ptq.executor.arithmetics.node_site import (
    Kernel,
    KernelMaker,
    Site,
    get_activation_qparams,
    require_input,
)
from ptq.kernels.fixed_point import Int64, rescale
from ptq.kernels.lookup import PairTable

_UNIT_BITS = 8
_LIMIT = 2**16


def _to_common_unit(q: Int64, params: QuantParams) -> Int64:
    units = (q - int(params.zero_point)) << _UNIT_BITS
    if params.scale > 1:
        return np.where(units < 0, -1, 1)
    return rescale(units, float(params.scale))


def _make_comparison_maker(comparison: BinaryFunction) -> KernelMaker:
    def make(site: Site) -> Kernel:
        a, b = get_activation_qparams(site, 0), get_activation_qparams(site, 1)
        largest = max(float(a.scale), float(b.scale))
        if largest >= _LIMIT:
            raise UnsupportedError(
                f"{site.op} in LiteRT depends on its shapes for integers of scale {largest:.3g}; "
                f"it is computed below a scale of {_LIMIT}"
            )

        def compare(qa: Int64, qb: Int64) -> NDArray[Any]:
            return comparison(_to_common_unit(qa, a), _to_common_unit(qb, b))

        table = PairTable(compare, a.qtype, b.qtype)
        return lambda inputs: table(require_input(site, inputs, 0), require_input(site, inputs, 1))

    return make


KERNELS: Mapping[str, KernelMaker] = {
    op: _make_comparison_maker(how) for op, how in COMPARISONS.items()
}
