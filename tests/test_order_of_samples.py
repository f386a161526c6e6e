"""What depends on the order of the samples, and what does not; the same rows in another order are the oracle."""

from __future__ import annotations

import numpy as np
from networks import build_network, gaussian_array

import ptq

MODEL = build_network(
    "h = Gemm(x, w, b)\nr = Relu(h)\ny = Gemm(r, v)",
    {"x": ("n", 8)},
    w=gaussian_array(8, 16), b=gaussian_array(16), v=gaussian_array(16, 4),
)  # fmt: skip
ROWS = gaussian_array(60, 8, seed=1)
SHUFFLED = ROWS[np.random.default_rng(2).permutation(len(ROWS))]
OTHER = gaussian_array(40, 8, seed=3)


def test_d5_statistics_do_not_depend_on_the_order() -> None:
    one, other = (ptq.calibrate(MODEL, rows, threads=1) for rows in (ROWS, SHUFFLED))
    assert one.to_bytes() == other.to_bytes()


def test_d5_the_same_order_gives_the_same_bytes() -> None:
    one, other = (ptq.quantize(MODEL, ROWS, eval_data=OTHER, threads=1) for _ in range(2))
    assert one.graph.to_bytes() == other.graph.to_bytes()


def test_d5_without_choices_on_held_out_samples_nothing_depends_on_the_order() -> None:
    one, other = (
        ptq.quantize(
            MODEL, rows, eval_data=OTHER, method="minmax", rounding="nearest", equalize=False, threads=1
        )
        for rows in (ROWS, SHUFFLED)
    )  # fmt: skip
    assert one.graph.to_bytes() == other.graph.to_bytes()
