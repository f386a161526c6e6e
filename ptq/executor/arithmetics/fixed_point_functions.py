"""Logistic function and tanh in fixed point, for runtimes that do not use tables of float functions.

    d = MBQM(x − zx, sx · 2^27) in Q4.27;  beyond ±15 the output is at the end of its range, and else
    Sigmoid   q = lo + RDPOT(logistic(d), 23)        at most 256 levels, clamped           output 1/256, lo
    Tanh      q = zo + RDPOT(tanh(d), 24)                                                  output 1/128, middle

Error bound: 1/2 + 2^-10 LSB before saturation. The functions have an error of at most 2^-20, which is 2^-12 LSB, and
their argument has that of MBQM's two roundings. TensorFlow Lite's uint8 kernels and tflite-micro compute so.

Source: gemmlowp, fixedpoint.h; TensorFlow Lite, reference/integer_ops/logistic.h and tanh.h.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptq.core.errors import UnsupportedError
from ptq.executor.arithmetics.litert_elementwise import make_unary_table_kernel, require_output
from ptq.executor.arithmetics.node_site import (
    Kernel,
    Site,
    get_activation_qparams,
    get_output_qparams,
)
from ptq.kernels.fixed_point import (
    Int64,
    divide_by_power_of_two,
    logistic,
    multiply,
    quantize_multiplier,
    tanh,
)

_INTEGER_BITS = 4
_FRACTION = 31 - _INTEGER_BITS
_RADIUS = (1 << _INTEGER_BITS) - 1


def make_sigmoid_kernel(site: Site) -> Kernel:
    """Return the kernel of LOGISTIC."""
    lo = get_output_qparams(site).qtype.lo
    require_output(site, 1 / 256, lo)
    return _make_fixed_point_table(site, logistic, 8, (0, 256))


def make_tanh_kernel(site: Site) -> Kernel:
    """Return the kernel of TANH."""
    y = get_output_qparams(site)
    require_output(site, 1 / 128, (y.qtype.lo + y.qtype.hi + 1) // 2)
    return _make_fixed_point_table(site, tanh, 7, (-128, 128))


def _make_fixed_point_table(
    site: Site, function: Callable[[Int64, int], Int64], bits: int, ends: tuple[int, int]
) -> Kernel:
    """Tabulate ``function`` in LSB of 2^-bits, and ``ends`` where the input exceeds Q4.27."""
    multiplier, shift = quantize_multiplier(
        float(get_activation_qparams(site).scale) * 2.0**_FRACTION
    )
    if shift < 0:
        raise UnsupportedError(f"the fixed-point {site.op} cannot represent an LSB below 2^-27")
    radius = (_RADIUS << _FRACTION) >> int(shift)

    def in_fixed_point(q: Int64) -> Int64:
        inside = np.clip(q, -radius, radius)
        value = function(multiply(inside, multiplier, shift), _INTEGER_BITS)
        lsb = divide_by_power_of_two(value, 31 - bits)
        return np.where(q <= -radius, ends[0], np.where(q >= radius, ends[1], lsb))

    return make_unary_table_kernel(site, in_fixed_point)
