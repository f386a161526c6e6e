"""Factors that go on into weights; ONNX Runtime's floats before and after are the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from networks import build_network, gaussian_array

from ptq.model.graph import Graph
from ptq.model.session.session import Session
from ptq.rewrite.change import Change
from ptq.rewrite.prepare.fold_scale_forward import fold_scale_forward

GIVEN = {
    "w": gaussian_array(8, 3, 3, 3),
    "v": gaussian_array(4, 8, 3, 3, seed=2),
    "f": np.float32([1.7]),
    "b": np.float32(0.4),
}
BEHIND = {
    "a convolution": "y = Conv<pads = [1, 1, 1, 1]>(m, v)",
    "two readers": "p = Conv(m, v)\nq = Conv(m, v)\ny = Add(p, q)",
    "a sum before padding": "a = Add(m, b)\ny = Conv<pads = [1, 1, 1, 1]>(a, v)",
    "a pool": "a = MaxPool<kernel_shape = [2, 2]>(m)\nr = Relu(a)\ny = Conv(r, v)",
}
NOT_BEHIND = {
    "an output": "a = Identity(m)\ny = Identity(a)",
    "a function": "a = Sigmoid(m)\ny = Conv(a, v)",
    "one reader of two": "a = Tanh(m)\np = Conv(m, v)\nq = Conv(a, v)\ny = Add(p, q)",
    "a sum of two": "a = Add(m, c)\ny = Conv(a, v)",
}


def graph_of(behind: str, factor: str = "f") -> Graph:
    return Graph.from_proto(
        build_network(f"c = Conv(x, w)\nm = Mul(c, {factor})\n{behind}", **GIVEN)
    ).with_shapes()


@pytest.mark.parametrize("behind", BEHIND.values(), ids=BEHIND)
def test_a_factor_vanishes_into_the_weights_behind_it(behind: str) -> None:
    before, after = graph_of(behind), graph_of(behind)
    assert fold_scale_forward(after) == [Change("fold_scale_forward", 1)]
    assert "Mul" not in {node.op_type for node in after.nodes}
    feed = {"x": gaussian_array(1, 3, 8, 8, seed=5)}
    one, other = (Session(graph, threads=1).run(feed)[0] for graph in (before, after))
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_factors_one_behind_the_other_vanish_together() -> None:
    graph = graph_of("a = MaxPool<kernel_shape = [2, 2]>(m)\nn = Mul(a, b)\ny = Conv(n, v)")
    assert fold_scale_forward(graph) == [Change("fold_scale_forward", 2)]


@pytest.mark.parametrize("behind", NOT_BEHIND.values(), ids=NOT_BEHIND)
def test_a_factor_that_some_way_does_not_take_stays(behind: str) -> None:
    assert fold_scale_forward(graph_of(behind)) == []


@pytest.mark.parametrize(
    "factor", [np.float32(-1.5), np.float32(0), np.float32(1e9), gaussian_array(8, 1, 1)]
)
def test_other_constants_stay(factor: np.ndarray) -> None:
    model = build_network("c = Conv(x, w)\nm = Mul(c, k)\ny = Conv(m, v)", k=factor, **GIVEN)
    assert fold_scale_forward(Graph.from_proto(model).with_shapes()) == []
