"""How does LiteRT compare 8-bit integers?

Maximum, minimum and their reductions and positions look at the raw integers: their inputs share one scale with the
output. The comparisons bring each side to a common unit of 2^-8 first,

    c = MBQM((q − z) · 2^8, s)        multiplier from float64

and compare these: real values that differ by less than the unit are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.arithmetics.litert_elementwise import same_scale
from ptq.arithmetics.operands import Inputs, activation, reduced_axes, required
from ptq.arithmetics.site import Kernel, Maker, Site
from ptq.kernels.fixedpoint import Int64, rescale
from ptq.kernels.lookup import lookup_pairs, tabulate_pairs

Elementwise = Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]
Reduction = Callable[..., NDArray[Any]]

_UNIT_BITS = 8


def _compared(comparison: Elementwise) -> Maker:
    def make(site: Site) -> Kernel:
        a, b = activation(site, 0), activation(site, 1)

        def compare(qa: Int64, qb: Int64) -> NDArray[Any]:
            left = rescale((qa - int(a.zero_point)) << _UNIT_BITS, float(a.scale))
            right = rescale((qb - int(b.zero_point)) << _UNIT_BITS, float(b.scale))
            return comparison(left, right)

        table = tabulate_pairs(compare, a.qtype, b.qtype)
        return lambda inputs: lookup_pairs(
            table, required(site, inputs, 0), required(site, inputs, 1)
        )

    return make


def _extreme(choice: Elementwise) -> Maker:
    def make(site: Site) -> Kernel:
        count = len(site.inputs)
        return lambda inputs: reduce(choice, [required(site, inputs, i) for i in range(count)])

    return same_scale(make)


def _reduced(reduction: Reduction) -> Maker:
    def make(site: Site) -> Kernel:
        keepdims = bool(site.attrs.get("keepdims", 1))

        def kernel(inputs: Inputs) -> NDArray[Any]:
            axes = reduced_axes(site, inputs)
            return reduction(required(site, inputs, 0), axis=axes, keepdims=keepdims)

        return kernel

    return same_scale(make)


def _position(first: Reduction) -> Maker:
    """Where an axis has its extreme value: the first such place, or the last if asked."""

    def make(site: Site) -> Kernel:
        axis = int(site.attrs.get("axis", 0))
        keepdims = bool(site.attrs.get("keepdims", 1))
        last = bool(site.attrs.get("select_last_index", 0))

        def kernel(inputs: Inputs) -> NDArray[Any]:
            q = required(site, inputs, 0)
            if not last:
                return np.asarray(first(q, axis=axis, keepdims=keepdims), np.int64)
            from_end = first(np.flip(q, axis), axis=axis, keepdims=keepdims)
            return np.asarray(q.shape[axis] - 1 - from_end, np.int64)

        return kernel

    return make


KERNELS: Mapping[str, Maker] = {
    "ArgMax": _position(np.argmax),
    "ArgMin": _position(np.argmin),
    "Equal": _compared(np.equal),
    "Greater": _compared(np.greater),
    "GreaterOrEqual": _compared(np.greater_equal),
    "Less": _compared(np.less),
    "LessOrEqual": _compared(np.less_equal),
    "Max": _extreme(np.maximum),
    "Min": _extreme(np.minimum),
    "NotEqual": _compared(np.not_equal),
    "ReduceMax": _reduced(np.max),
    "ReduceMin": _reduced(np.min),
}
