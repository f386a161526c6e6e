"""How much of a file's smaller size nodes in float may take back; the bytes of the weights are the oracle."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from networks import build_network, gaussian_array, prepare_and_calibrate, random_feeds

from ptq.model.proto.serialize import count_serialized_bytes
from ptq.optimization.mixed_precision.knee.file_size_limit import KeptSaving
from ptq.solver.quantizer import QuantizedModel, apply_plan, solve_plan
from ptq.solver.recipe import Recipe

WIDTH = 96
WEIGHTS = WIDTH * WIDTH
TEXT = "a = MatMul(x, u)\nb = Relu(a)\nc = MatMul(b, u)\nd = Relu(c)\ny = MatMul(d, w)"


@cache
def _make() -> QuantizedModel:
    u, w = (gaussian_array(WIDTH, WIDTH, seed=k).astype(np.float32) / 10 for k in range(2))
    model = build_network(TEXT, {"x": (64, WIDTH)}, u=u, w=w)
    ground = prepare_and_calibrate(model, random_feeds(model, 4))
    return apply_plan(ground, Recipe(), solve_plan(ground, Recipe()))


def _find_most(nodes: set[str]) -> float:
    """The bytes that these nodes take back: the least share of the saving that allows them, times the saving."""
    made = _make()
    saved = count_serialized_bytes(made.calibrated_model.source.model) - count_serialized_bytes(
        made.quantized_graph.model
    )
    low, high = 0.0, 4.0
    while high - low > 1e-9:
        share = (low + high) / 2
        low, high = (
            (low, share) if KeptSaving(made, share).allows(frozenset(nodes)) else (share, high)
        )
    return round(high * saved)


@pytest.mark.parametrize(
    ("nodes", "more"),
    [
        (set(), 0),
        ({"Relu_b"}, 0),
        ({"MatMul_y"}, 3 * WEIGHTS),
        ({"MatMul_a", "MatMul_c"}, 3 * WEIGHTS),
        ({"MatMul_a", "MatMul_c", "MatMul_y"}, 6 * WEIGHTS),
    ],
)
def test_weights_in_float_take_three_bytes_more_each(nodes: set[str], more: int) -> None:
    assert _find_most(nodes) == more


def test_a_weight_that_another_node_reads_as_integers_is_stored_twice() -> None:
    assert _find_most({"MatMul_a"}) == 4 * WEIGHTS


def test_what_may_not_be_float_has_no_price() -> None:
    price = KeptSaving(_make(), 3 / 4).limit(lambda more, _: float(len(more)))
    first, last = frozenset(["MatMul_a", "MatMul_c"]), frozenset(["MatMul_y"])
    assert price(last, frozenset()) == 1
    assert price(last, first) == np.inf
