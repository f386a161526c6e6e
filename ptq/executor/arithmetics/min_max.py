"""Operators that select integers by their order: the kernels of every arithmetic, because dequantization is monotone.

Extremes along axes and their positions need one scale for input and output, or none for positions. The larger, the
smaller or the selected of several tensors needs inputs with the output's scale.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.executor.arithmetics.node_site import (
    Inputs,
    Kernel,
    KernelMaker,
    Site,
    get_reduced_axes,
    require_input,
)

Reduction = Callable[..., NDArray[Any]]
BinaryFunction = Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]


def _make_reduction_maker(reduction: Reduction, of_none: str) -> KernelMaker:
    """Return the maker of a reduction along axes.

    Along zero values it gives the extreme integer of the other direction, to which an infinity saturates.
    """

    def make(site: Site) -> Kernel:
        keepdims = bool(site.attrs.get("keepdims", 1))

        def kernel(inputs: Inputs) -> NDArray[Any]:
            q, axes = require_input(site, inputs, 0), get_reduced_axes(site, inputs)
            initial = getattr(np.iinfo(q.dtype), of_none)
            return np.asarray(reduction(q, axis=axes, keepdims=keepdims, initial=initial))

        return kernel

    return make


def _make_global_max_pool(site: Site) -> Kernel:
    def kernel(inputs: Inputs) -> NDArray[Any]:
        q = require_input(site, inputs, 0)
        axes = tuple(range(1, q.ndim - 1))
        return np.asarray(q.max(axis=axes, keepdims=True, initial=np.iinfo(q.dtype).min))

    return kernel


def _make_arg_reduction_maker(first: Reduction) -> KernelMaker:
    """Return the maker of the position of an extreme along an axis: the first one, or the last one."""

    def make(site: Site) -> Kernel:
        axis = int(site.attrs.get("axis", 0))
        keepdims = bool(site.attrs.get("keepdims", 1))
        last = bool(site.attrs.get("select_last_index", 0))

        def kernel(inputs: Inputs) -> NDArray[Any]:
            q = require_input(site, inputs, 0)
            if not last:
                return np.asarray(first(q, axis=axis, keepdims=keepdims), np.int64)
            from_end = first(np.flip(q, axis), axis=axis, keepdims=keepdims)
            return np.asarray(q.shape[axis] - 1 - from_end, np.int64)

        return kernel

    return make


def _make_selection_maker(choice: BinaryFunction) -> KernelMaker:
    def make(site: Site) -> Kernel:
        count = len(site.inputs)
        return lambda inputs: reduce(choice, [require_input(site, inputs, i) for i in range(count)])

    return make


def _make_where(site: Site) -> Kernel:
    return lambda inputs: np.where(*(require_input(site, inputs, i) for i in range(3)))


COMPARISONS: Mapping[str, BinaryFunction] = {
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "NotEqual": np.not_equal,
}
"""Comparisons of real values; ONNX writes NotEqual as Equal and Not."""

REDUCTION_OPS: Mapping[str, KernelMaker] = {
    "GlobalMaxPool": _make_global_max_pool,
    "ReduceMax": _make_reduction_maker(np.max, "min"),
    "ReduceMin": _make_reduction_maker(np.min, "max"),
}
"""Extremes along axes: integers of input 0."""

ARG_REDUCTION_OPS: Mapping[str, KernelMaker] = {
    "ArgMax": _make_arg_reduction_maker(np.argmax),
    "ArgMin": _make_arg_reduction_maker(np.argmin),
}
"""Positions of extremes: int64."""

SELECTION_OPS: Mapping[str, KernelMaker] = {
    "Max": _make_selection_maker(np.maximum),
    "Min": _make_selection_maker(np.minimum),
    "Where": _make_where,
}
"""Selections among several tensors."""
