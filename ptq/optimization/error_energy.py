"""Energy of the error of one output against the float model's, also where its length or finite values are lost."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def measure_energy(array: NDArray[Any]) -> float:
    """The sum of squares of the finite values; 0 for integers."""
    if array.dtype.kind != "f":
        return 0.0
    return float(np.square(array[np.isfinite(array)].astype(np.float64)).sum())


def measure_error_energy(output: NDArray[Any], reference: NDArray[Any]) -> float:
    """The sum of squares of the error; 0 for integers.

    A value that only one of the two has, because a decoder ended earlier or a detector found other boxes, is an error
    of its own. If a finite value became NaN or infinite, the error has at least the energy of the reference.

    Args:
        output: An output of the model.
        reference: The same output of the float model, of any shape.
    """
    if reference.dtype.kind != "f" or output.dtype.kind != "f":
        return 0.0
    if output.ndim != reference.ndim:
        return measure_energy(output) + measure_energy(reference)
    if output.shape != reference.shape:
        shape = np.maximum(output.shape, reference.shape)
        output, reference = _extend(output, shape), _extend(reference, shape)
    with np.errstate(invalid="ignore"):  # infinity less infinity
        error = measure_energy(output.astype(np.float64) - reference)
    if (np.isfinite(reference) & ~np.isfinite(output)).any():
        return max(error, measure_energy(reference))
    return error


def _extend(array: NDArray[Any], shape: NDArray[np.intp]) -> NDArray[Any]:
    """The array with zeros behind, up to a shape."""
    return np.pad(array, [(0, end - size) for size, end in zip(array.shape, shape, strict=True)])
