"""One node as an arithmetic sees it, from a few words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ptq.core.types import INT8, UINT8, QuantParams
from ptq.executor.arithmetics import get_kernels
from ptq.executor.arithmetics.node_site import Site

Array = Any


def int8_params(scale: Any, zero_point: Any = 0, axis: int | None = None) -> QuantParams:
    """Parameters of an int8 tensor."""
    return _params(scale, zero_point, INT8, axis)


def uint8_params(scale: Any, zero_point: Any = 0, axis: int | None = None) -> QuantParams:
    """Parameters of a uint8 tensor."""
    return _params(scale, zero_point, UINT8, axis)


def _params(scale: Any, zero_point: Any, qtype: Any, axis: int | None) -> QuantParams:
    scales = np.asarray(scale, np.float32)
    zeros = np.broadcast_to(np.asarray(zero_point, np.int64), scales.shape).copy()
    return QuantParams(scales, zeros, qtype, axis)


def run_node(
    name: str,
    op: str,
    operands: Sequence[tuple[Array, QuantParams | None] | None],
    output: QuantParams,
    *,
    constants: Sequence[int] = (),
    clamp: tuple[int, int] | None = None,
    **attrs: Any,
) -> Array:
    """The output of one node in the arithmetic of that name; ``constants`` are known beforehand."""
    arrays = [None if o is None else np.asarray(o[0]) for o in operands]
    site = Site(
        op,
        attrs,
        tuple(None if o is None else o[1] for o in operands),
        (output,),
        tuple(a if i in constants else None for i, a in enumerate(arrays)),
        clamp,
    )
    return get_kernels(name)[op](site)(arrays)
