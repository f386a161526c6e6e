"""How are LayerNormalization and InstanceNormalization computed in integers alone?

    x̂ in Q11.20 from the integers of x (`ptq.kernels.integer_norm`)
    q = zo + RDPOT(MBQM(x̂, 2^-10 · gamma / so) + round(2^10 · beta / so), 10)

gamma and beta are real constants, which become multipliers and offsets before anything runs. LiteRT has no such
operators (its converter takes them apart); this is our own, of the same primitives, for its integer-only targets.

Error bound, in steps of the output, before saturation: 1/2 + 2^-8 + 2^-18 · |x̂ · gamma| / so. It holds for gamma
below 2^10 steps and up to 2^18 values; more is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.executor.arithmetics.litert_elementwise import saturated
from ptq.executor.arithmetics.node_site import (
    Inputs,
    Kernel,
    Maker,
    Site,
    activation,
    constant,
    required,
    result,
)
from ptq.kernels.fixed_point import Int64, divide_by_power_of_two, rescale
from ptq.kernels.integer_norm import FRACTION, MOST, standardized

Finish = Callable[[Int64], NDArray[Any]]

_GUARD = 10
_DEFAULT_EPSILON = 1e-5


def _real(site: Site, index: int, default: float) -> NDArray[np.float64]:
    given = site.inputs[index] if index < len(site.inputs) else None
    array = constant(site, index)
    if given is not None:
        raise UnsupportedError(f"input {index} of {site.op} is quantized; leave the node float")
    return np.asarray(default if array is None else array, np.float64)


def _finish(site: Site, gamma: NDArray[np.float64], beta: NDArray[np.float64]) -> Finish:
    step = float(result(site).scale)
    slope = gamma / step * 2.0 ** (_GUARD - FRACTION)
    if np.abs(slope).max(initial=0.0) >= 1:
        raise UnsupportedError(
            f"{site.op} multiplies by more than 2^10 steps; give the output a wider range"
        )
    offset = np.rint(beta / step * 2.0**_GUARD).astype(np.int64)

    def finish(x: Int64) -> NDArray[Any]:
        scaled = np.sign(slope).astype(np.int64) * rescale(x, np.abs(slope))
        return saturated(site, divide_by_power_of_two(scaled + offset, _GUARD))

    return finish


def _normalized(site: Site, inputs: Inputs, axes: tuple[int, ...]) -> Int64:
    x = required(site, inputs, 0)
    if np.prod([x.shape[axis] for axis in axes]) > MOST:
        raise UnsupportedError(f"{site.op} runs over more than {MOST} values; leave it float")
    epsilon = float(np.float32(site.attrs.get("epsilon", _DEFAULT_EPSILON)))
    return standardized(x.astype(np.int64), axes, epsilon / float(activation(site).scale) ** 2)


def _layer(site: Site) -> Kernel:
    finish = _finish(site, _real(site, 1, 1.0), _real(site, 2, 0.0))
    first = int(site.attrs.get("axis", -1))

    def kernel(inputs: Inputs) -> NDArray[Any]:
        rank = required(site, inputs, 0).ndim
        return finish(_normalized(site, inputs, tuple(range(first % rank, rank))))

    return kernel


def _instance(site: Site) -> Kernel:
    gamma, beta = _real(site, 1, 1.0), _real(site, 2, 0.0)

    def kernel(inputs: Inputs) -> NDArray[Any]:
        rank = required(site, inputs, 0).ndim
        a_channel = (-1, *(1,) * (rank - 2))
        finish = _finish(site, gamma.reshape(a_channel), beta.reshape(a_channel))
        return finish(_normalized(site, inputs, tuple(range(2, rank))))

    return kernel


KERNELS: Mapping[str, Maker] = {"InstanceNormalization": _instance, "LayerNormalization": _layer}
