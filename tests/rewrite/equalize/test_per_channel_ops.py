"""Channels multiplied through HardSwish; ONNX Runtime, in float and on integers, is the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from networks import (
    build_network,
    find_disagreements,
    gaussian_array,
    optimized_kernels,
    quantize_network,
    worst_sqnr_db,
)

from ptq.executor.executor import Executor
from ptq.model.graph import Graph
from ptq.model.node import get_operator
from ptq.model.session.session import Session
from ptq.rewrite.equalize.channel_groups import FIXED, group_channels
from ptq.rewrite.equalize.scale_channels import scale_channels

C = 64
GIVEN = {
    "w": gaussian_array(C, 3, 3, 3, scale=0.3),
    "b": gaussian_array(C, seed=1),
    "deep": gaussian_array(C, 1, 3, 3, seed=2, scale=0.3),
    "square": gaussian_array(C, C, 1, 1, seed=3, scale=0.1),
    "v": gaussian_array(4, C, 1, 1, seed=4, scale=0.3),
    "shift": np.float32([0.4]),
}
SAME = "<pads = [1, 1, 1, 1]>"
DEEP = "<pads = [1, 1, 1, 1], group = 64>"
BETWEEN = {
    "a layer alone": "h = HardSwish(c)",
    "a depthwise layer": f"a = HardSwish(c)\nd = Conv{DEEP}(a, deep)\nh = HardSwish(d)",
    "a residual": "a = HardSwish(c)\nd = Conv(a, square, b)\nr = Add(a, d)\nh = HardSwish(r)",
    "an input with other readers": "a = HardSwish(c)\nh = Add(a, c)",
    "a squeeze and excitation": "a = HardSwish(c)\np = GlobalAveragePool(a)\nq = Conv(p, square)\n"
    "g = HardSigmoid(q)\nh = Mul(a, g)",
    "a summand before padding": f"a = HardSwish(c)\ns = Add(a, shift)\nh = Conv{DEEP}(s, deep)",
}


def model(between: str, **weights: object):
    nodes = f"c = Conv{SAME}(x, w, b)\n{between}\ny = Conv(h, v)"
    return build_network(nodes, **{**GIVEN, **weights})


def scaled(graph: Graph, spread: float = 2.0) -> Graph:
    found = group_channels(graph)
    factors = 2 ** np.random.default_rng(7).uniform(-spread, spread, found.group_count)
    factors[FIXED] = 1
    return scale_channels(graph, factors)


@pytest.mark.parametrize("between", BETWEEN.values(), ids=BETWEEN)
def test_the_function_stays_in_float(between: str) -> None:
    graph = Graph.from_proto(model(between)).with_shapes()
    after = scaled(graph)
    assert "HardSwish" not in {get_operator(node) for node in after.nodes}
    feed = {"x": gaussian_array(2, 3, 8, 8, seed=5)[:1]}
    one, other = (Session(g, threads=1).run(feed)[0] for g in (graph, after))
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("between", BETWEEN.values(), ids=BETWEEN)
def test_all_forms_compute_the_same_integers_and_nothing_in_float(between: str) -> None:
    done = quantize_network(scaled(Graph.from_proto(model(between)).with_shapes(), 0.5).to_proto())
    assert find_disagreements(done) == []
    assert not Executor(done.qdq).islands
    kernels = optimized_kernels(done.qdq)
    assert not kernels["Conv"] + kernels["Clip"] + kernels["Mul"] + kernels["Add"]
    assert worst_sqnr_db(done) > 25


def test_a_summand_has_a_convolution_where_every_channel_has_one_of_its_own() -> None:
    after = scaled(Graph.from_proto(model(BETWEEN["a summand before padding"])).with_shapes())
    assert "Add" not in {get_operator(node) for node in after.nodes}


def test_few_channels_and_closed_gates_keep_theirs() -> None:
    graph = Graph.from_proto(model("h = HardSwish(c)")).with_shapes()
    [node] = [node for node in graph.nodes if get_operator(node) == "HardSwish"]
    assert group_channels(graph).gated_nodes == [node]
    assert group_channels(graph, {node.name}).gated_nodes == []
    few = {
        "w": gaussian_array(32, 3, 3, 3),
        "b": gaussian_array(32),
        "v": gaussian_array(4, 32, 1, 1),
    }
    assert (
        group_channels(Graph.from_proto(model("h = HardSwish(c)", **few)).with_shapes()).groups
        == {}
    )
