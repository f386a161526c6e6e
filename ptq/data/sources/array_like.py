"""Tensors of other packages, and nested lists of numbers, as numpy arrays.

A package is recognized by the module name of the object's type, so that it need not be imported.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError

_NUMBER_KINDS = "biufcV"


def get_package(value: Any) -> str:
    """Top-level package of an object's type, for example ``torch``."""
    return type(value).__module__.partition(".")[0]


def to_array(value: Any, where: str) -> NDArray[Any] | None:
    """The object as an array; None if it is neither a tensor nor a nested list of numbers.

    Raises:
        DataError: It is a tensor or a list that has no equal array, for example a sparse, ragged or masked one.
    """
    if _is_masked(value):
        raise DataError(f"{where}: has masked values; fill them, or leave those samples out")
    if isinstance(value, (np.ndarray, np.generic, bool, int, float)):
        return np.asarray(value)
    try:
        if get_package(value) == "torch" and hasattr(value, "detach"):
            return _from_torch(value)
        if hasattr(value, "__array__"):
            array = np.asarray(value)
        elif isinstance(value, (list, tuple)):
            array = _from_list(value, where)
        else:
            return None
    except (TypeError, ValueError, RuntimeError, NotImplementedError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(
            f"{where}: cannot convert {type(value).__name__} to an array: {reason}"
        ) from error
    return array if array.dtype.kind in _NUMBER_KINDS else None


def _is_masked(value: Any) -> bool:
    """Whether an array, or one in a list, has masked values."""
    if isinstance(value, (list, tuple)):
        return (
            bool(value) and not isinstance(value[0], (int, float)) and any(map(_is_masked, value))
        )
    return isinstance(value, np.ma.MaskedArray) and bool(np.ma.is_masked(value))


def _from_torch(tensor: Any) -> NDArray[Any]:
    tensor = tensor.detach().cpu().resolve_conj()
    if str(tensor.dtype) == "torch.bfloat16":  # numpy has no such type; float32 holds every value
        tensor = tensor.float()
    array: NDArray[Any] = tensor.numpy()
    return array


def _from_list(values: list[Any] | tuple[Any, ...], where: str) -> NDArray[Any]:
    if any(getattr(value, "ndim", 0) and get_package(value) != "numpy" for value in values):
        raise DataError(
            f"{where}: is a list of tensors, whose axes cannot be known; stack them, for example with "
            'torch.stack, or set the format of the dataset: dataset.with_format("torch")'
        )
    return np.asarray(values)
