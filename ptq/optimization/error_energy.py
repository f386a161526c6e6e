"""Energy of the error of one output against the float model's, also where its length or finite values are lost.

Several places divide the energy of an output's error by the energy of the output. What the two cannot express, other
shapes and values that are not finite, is treated by the purpose of the place:

Range search (`ptq.optimization.output_error`) and frontier
(`ptq.optimization.mixed_precision.frontier.frontier_error`): both count by `measure_error_energy`, below. Values that
are not finite in float are left out. An output without energy does not count.

Report (`ptq.evaluation.metrics`): values that are not finite in float are left out. A shape that differs, and other
values that are not finite, are an infinite error, because the user must see them.

Self-check (`ptq.optimization.self_check.output_distance`): values that are not finite in float are left out. Other
values that are not finite are a failure, and so is another number of axes. An output whose length differs is not
compared, because rounding may decide the length.

Error injection (`ptq.optimization.mixed_precision.attribution.error_injection`): values that are not finite in float
are left out. An output whose shape changes does not count on that sample. An error that is not finite makes the share
huge (`error_attribution` there), so the source counts as the most harmful one.

Emulator of a target (`ptq.api.target_runtime`): nothing is left out. A value that is not finite makes the
ratio NaN or infinite, which the line shows.

Runtime check (`ptq.verification.runtime_check`): NaN and infinities that are the same in both are left out. Where
they or the shape differ, the tensor diverges.
"""

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
