"""Whether a constant holds NaN or infinity, found once for each tensor: a pass over all weights takes time."""

from __future__ import annotations

from weakref import WeakSet

import numpy as np
from onnx_ir import TensorProtocol

_KNOWN_FINITE = WeakSet[TensorProtocol]()
"""Tensors without NaN and infinity; no code changes a tensor."""


def has_non_finite(constant: TensorProtocol, *, infinite: bool) -> bool:
    """Whether a NaN is among the values, or an infinity if these count."""
    if constant in _KNOWN_FINITE:
        return False
    array = constant.numpy()
    with np.errstate(all="ignore"):
        if np.isfinite(array.sum(dtype=np.float32)):  # one pass over large weights
            _KNOWN_FINITE.add(constant)
            return False
    return bool(np.isnan(array).any() or (infinite and np.isinf(array).any()))
