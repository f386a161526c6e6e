"""Summands that go on into biases; ONNX Runtime's floats before and after are the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from networks import build_network, gaussian_array

from ptq.model.graph import Graph
from ptq.model.session.session import Session
from ptq.rewrite.change import Change
from ptq.rewrite.prepare.fold_shift_forward import fold_shift_forward

GIVEN = {
    "w": gaussian_array(8, 3, 3, 3),
    "v": gaussian_array(4, 8, 3, 3, seed=2),
    "g": gaussian_array(4, 2, 1, 1, seed=3),
    "m": gaussian_array(8, 5, seed=4),
    "b": gaussian_array(4, seed=5),
    "one": np.float32([0.4]),
    "each": gaussian_array(8, 1, 1, seed=6),
    "places": gaussian_array(6, 6, seed=7),
}
BEHIND = {
    "a convolution": "s = Add(h, one)\ny = Conv(s, v, b)",
    "one without a bias": "s = Add(one, h)\ny = Conv(s, v)",
    "a value a channel": "s = Add(h, each)\ny = Conv(s, v, b)",
    "groups": "s = Add(h, each)\ny = Conv<group = 4>(s, g)",
    "two readers": "s = Add(h, one)\np = Conv(s, v, b)\nq = Conv(s, v, b)\ny = Add(p, q)",
    "a dense layer": "p = GlobalAveragePool(h)\nf = Flatten(p)\ns = Add(f, one)\ny = Gemm(s, m)",
}
NOT_BEHIND = {
    "padding": "s = Add(h, one)\ny = Conv<pads = [1, 1, 1, 1]>(s, v)",
    "an output": "y = Add(h, one)",
    "one reader of two": "s = Add(h, one)\np = Conv(s, v)\nt = Tanh(s)\nq = Conv(t, v)\ny = Add(p, q)",
    "a value a place": "s = Add(h, places)\ny = Conv(s, v)",
    "a sum of two": "t = Tanh(h)\ns = Add(h, t)\ny = Conv(s, v)",
}


def graph_of(behind: str) -> Graph:
    nodes = f"c = Conv(x, w)\nh = Relu(c)\n{behind}"
    return Graph.from_proto(build_network(nodes, **GIVEN)).with_shapes()


@pytest.mark.parametrize("behind", BEHIND.values(), ids=BEHIND)
def test_a_summand_vanishes_into_the_biases_behind_it(behind: str) -> None:
    before, after = graph_of(behind), graph_of(behind)
    assert fold_shift_forward(after) == [Change("fold_shift_forward", 1)]
    after.remove_unused()
    feed = {"x": gaussian_array(1, 3, 8, 8, seed=5)}
    one, other = (Session(graph, threads=1).run(feed)[0] for graph in (before, after))
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("behind", NOT_BEHIND.values(), ids=NOT_BEHIND)
def test_a_summand_stays_where_biases_cannot_stand_for_it(behind: str) -> None:
    graph = graph_of(behind)
    assert fold_shift_forward(graph) == []
    assert graph.to_bytes() == graph_of(behind).to_bytes()
