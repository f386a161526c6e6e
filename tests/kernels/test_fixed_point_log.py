"""Fixed-point log against float64; its bits are held by LiteRT's vectors."""

from __future__ import annotations

import numpy as np

from ptq.kernels.fixed_point_log import log_of_one_and_more

RNG = np.random.default_rng(0)


def test_the_logarithm_is_log_to_20_bits() -> None:
    x = np.concatenate([np.arange(2**11, 2**16) << 8, RNG.integers(2**19, 2**28, 4000)])
    error = log_of_one_and_more(x) / 2.0**26 - np.log(x / 2.0**19)
    assert np.abs(error).max() < 2.0**-20
