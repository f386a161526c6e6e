"""LayerNormalization and InstanceNormalization in integers alone.

    x̂ in Q11.20 from the integers of x (`ptq.kernels.integer_norm`)
    q = zo + RDPOT(MBQM(x̂, 2^-10 · gamma / so) + round(2^10 · beta / so), 10)

gamma and beta are float constants. They become multipliers and offsets before any data. LiteRT has no operators for
these: its converter decomposes them. This form is ptq's own, for LiteRT's integer-only targets, of the same
primitives.

Error bound, in LSB of the output, before saturation: 1/2 + 2^-8 + 2^-18 · |x̂ · gamma| / so. It holds for gamma
below 2^10 LSB and up to 2^18 values; other nodes are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.executor.arithmetics.litert_elementwise import saturate_to_output
from ptq.executor.arithmetics.node_site import (
    Inputs,
    Kernel,
    KernelMaker,
    Site,
    get_activation_qparams,
    get_constant_input,
    get_output_qparams,
    require_input,
)
from ptq.kernels.fixed_point import Int64, divide_by_power_of_two, rescale
from ptq.kernels.integer_norm import FRACTION_BITS, MAX_COUNT, standardize

ScaleAndShift = Callable[[Int64], NDArray[Any]]

_GUARD_BITS = 10
_DEFAULT_EPSILON = 1e-5


def _get_real_constant(site: Site, index: int, default: float) -> NDArray[np.float64]:
    given = site.inputs[index] if index < len(site.inputs) else None
    array = get_constant_input(site, index)
    if given is not None:
        raise UnsupportedError(f"input {index} of {site.op} is quantized; leave the node float")
    return np.asarray(default if array is None else array, np.float64)


def _make_scale_and_shift(
    site: Site, gamma: NDArray[np.float64], beta: NDArray[np.float64]
) -> ScaleAndShift:
    lsb = float(get_output_qparams(site).scale)
    slope = gamma / lsb * 2.0 ** (_GUARD_BITS - FRACTION_BITS)
    if np.abs(slope).max(initial=0.0) >= 1:
        raise UnsupportedError(
            f"{site.op} multiplies by more than 2^10 LSB; give the output a wider range"
        )
    offset = np.rint(beta / lsb * 2.0**_GUARD_BITS).astype(np.int64)

    def scale_and_shift(x: Int64) -> NDArray[Any]:
        scaled = np.sign(slope).astype(np.int64) * rescale(x, np.abs(slope))
        return saturate_to_output(site, divide_by_power_of_two(scaled + offset, _GUARD_BITS))

    return scale_and_shift


def _standardize_input(site: Site, inputs: Inputs, axes: tuple[int, ...]) -> Int64:
    x = require_input(site, inputs, 0)
    if np.prod([x.shape[axis] for axis in axes]) > MAX_COUNT:
        raise UnsupportedError(f"{site.op} runs over more than {MAX_COUNT} values; leave it float")
    epsilon = float(np.float32(site.attrs.get("epsilon", _DEFAULT_EPSILON)))
    return standardize(
        x.astype(np.int64), axes, epsilon / float(get_activation_qparams(site).scale) ** 2
    )


def _make_layer_normalization(site: Site) -> Kernel:
    scale_and_shift = _make_scale_and_shift(
        site, _get_real_constant(site, 1, 1.0), _get_real_constant(site, 2, 0.0)
    )
    first = int(site.attrs.get("axis", -1))

    def kernel(inputs: Inputs) -> NDArray[Any]:
        rank = require_input(site, inputs, 0).ndim
        return scale_and_shift(_standardize_input(site, inputs, tuple(range(first % rank, rank))))

    return kernel


def _make_instance_normalization(site: Site) -> Kernel:
    gamma, beta = _get_real_constant(site, 1, 1.0), _get_real_constant(site, 2, 0.0)

    def kernel(inputs: Inputs) -> NDArray[Any]:
        rank = require_input(site, inputs, 0).ndim
        per_channel = (-1, *(1,) * (rank - 2))
        scale_and_shift = _make_scale_and_shift(
            site, gamma.reshape(per_channel), beta.reshape(per_channel)
        )
        return scale_and_shift(_standardize_input(site, inputs, tuple(range(2, rank))))

    return kernel


KERNELS: Mapping[str, KernelMaker] = {
    "InstanceNormalization": _make_instance_normalization,
    "LayerNormalization": _make_layer_normalization,
}
