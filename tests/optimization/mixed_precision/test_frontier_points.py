"""Points of a frontier. All subsets are the oracle of the search; SQNR by hand is that of the error."""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from networks import build_network, gaussian_array, prepare_and_calibrate, sqnr_db, to_samples

from ptq.core.run_options import RunOptions
from ptq.model.session.session import Session
from ptq.optimization.mixed_precision.attribution.error_attribution import ErrorAttribution
from ptq.optimization.mixed_precision.float_trade import FloatTrade
from ptq.optimization.mixed_precision.frontier.frontier_error import FrontierError
from ptq.optimization.mixed_precision.frontier.frontier_points import (
    CurvePoint,
    add_neighbours,
    keep_pareto,
    trace_curve,
)
from ptq.rewrite.instrument.error_sources import ErrorSource
from ptq.rewrite.instrument.logits import build_logits_graph
from ptq.solver.quantizer import apply_plan, solve_plan
from ptq.solver.recipe import Recipe

SHARES = {"a": 0.4, "b": 0.3, "c": 0.2, "d": 0.1}
TIMES = {"a": 7.0, "b": 3.0, "c": 6.0, "d": 1.5}


class Times:
    """Estimates by adding up."""

    def __init__(self, in_float: float) -> None:
        self.all_int8, self.in_float = 10.0, in_float

    def estimate(self, floats: Collection[str]) -> float:
        return self.all_int8 + sum(TIMES[node] for node in floats)


def attribute(shares: dict[str, float]) -> ErrorAttribution:
    sources = tuple(ErrorSource("tensor", node, node, frozenset([node])) for node in shares)
    rows = np.array([list(shares.values())])
    return ErrorAttribution(sources, rows, rows.sum(1), np.ones(len(shares), bool), 8, 9)


def trade(times: Any) -> FloatTrade:
    def price(more: frozenset[str], floats: frozenset[str]) -> float:
        return sum(TIMES[node] for node in more)

    return FloatTrade(attribute(SHARES), price, times)


def trace(times: Any) -> list[CurvePoint]:
    return trace_curve(trade(times))


def list_all(times: Any) -> set[frozenset[str]]:
    points = [
        CurvePoint(frozenset(nodes), times.estimate(nodes), 1 - sum(SHARES[n] for n in nodes))
        for count in range(len(SHARES))  # all four leave no error
        for nodes in combinations(SHARES, count)
        if not nodes or times.estimate(nodes) < times.in_float
    ]
    return {point.floats for point in keep_pareto(points)}


@pytest.mark.parametrize("in_float", [28.0, 20.0, 13.5])
def test_neighbours_of_a_short_curve_give_every_point(in_float: float) -> None:
    times: Any = Times(in_float)
    greedy = trace(times)
    found = add_neighbours(trade(times), greedy)
    assert found[0].floats == frozenset()
    assert {point.floats for point in keep_pareto(found)} == list_all(times)
    if in_float == 28.0:
        assert len(greedy) < len(list_all(times))


def test_nodes_that_take_all_the_time_of_float_are_no_point() -> None:
    times: Any = Times(13.0)  # that of node b
    assert frozenset("b") not in {point.floats for point in trace(times)}
    found = add_neighbours(trade(times), trace(times))
    assert {point.floats for point in found} == {frozenset(), frozenset("d")}


@pytest.mark.parametrize("last", ["Softmax", "Identity"])
def test_the_error_is_that_of_the_logits(last: str) -> None:
    """Softmax changes nothing: float and int8 are compared before it."""
    text = "h = MatMul(x, w0)\nr = Relu(h)\nl = MatMul(r, w1)\n"
    weights = {"w0": gaussian_array(16, 64), "w1": 3 * gaussian_array(64, 8)}
    constants = {name: w.astype(np.float32) for name, w in weights.items()}
    feeds = [{"x": row.astype(np.float32)} for row in gaussian_array(40, 1, 16)]
    model = build_network(f"{text}y = {last}(l)", {"x": (1, 16)}, **constants)
    ground = prepare_and_calibrate(model, feeds)
    made = apply_plan(ground, Recipe(), solve_plan(ground, Recipe()))
    error = FrontierError(made, to_samples(feeds[:12]), RunOptions(threads=1))
    assert [v.name for v in error.graph.outputs] == ["l" if last == "Softmax" else "y"]

    graphs = ground.prepared.graph, made.quantized_graph
    before, after = (
        np.concatenate([Session(build_logits_graph(graph)).run(feed)[0] for feed in feeds[:12]])
        for graph in graphs
    )
    assert error.measure(made) == pytest.approx(sqnr_db(before, after), abs=1e-3)
    floats = made.recipe.with_float_nodes(
        {node.name or "": "test" for node in ground.prepared.graph.nodes}
    )
    exact = apply_plan(ground, floats, solve_plan(ground, floats))
    assert error.measure(exact) > 100
