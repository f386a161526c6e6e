"""Positions counted from sizes; the oracle is ONNX Runtime on the float model, with a size beyond the samples."""

from __future__ import annotations

import numpy as np
import pytest
from networks import QuantizedNetwork, build_network, gaussian_array, quantize_network

from ptq.model.graph import Graph
from ptq.model.session import Session
from ptq.solver.partition.positions import nodes_with_positions

WIDTH = "c = Conv<pads = [1, 1, 1, 1]>(x, w)\ns = Shape(c)\nn = Gather(s, three)\n"
CONSTANTS = {
    "w": gaussian_array(4, 3, 3, 3),
    "three": np.int64(3),
    "zero": np.float32(0),
    "one": np.float32(1),
    "half": np.float32(0.5),
    "begin": np.int64(0),
    "step": np.int64(1),
    "table": gaussian_array(64, scale=0.1),
}
CENTRES = "f = Cast<to = 1>(n)\nr = Range(zero, f, one)\ng = Add(r, half)\n"


def _quantize(nodes: str, width: int | str = "W") -> QuantizedNetwork:
    model = build_network(WIDTH + nodes, {"x": (1, 3, 8, width)}, **CONSTANTS)
    samples = [{"x": gaussian_array(1, 3, 8, 8, seed=seed)} for seed in range(4)]
    return quantize_network(model, samples)


def test_boxes_of_a_larger_image_are_not_cut_off() -> None:
    done = _quantize(CENTRES + "y = Add(c, g)")
    assert {"Add_g", "Add_y"} < done.plan.floats.keys()
    assert "positions" in done.plan.floats["Add_y"]
    feed = {"x": gaussian_array(1, 3, 8, 64, seed=9, scale=0.3)}
    wanted, found = (
        Session(graph, threads=1).run(feed)[0] for graph in (Graph.from_proto(done.model), done.qdq)
    )
    assert wanted.max() > 60
    assert np.abs(wanted - found).max() < 0.2  # up to 50 where the range of 8 pixels cuts off


@pytest.mark.parametrize(
    "moved",
    [
        "m = Reshape(g, k)\ny = Sub(c, m)",
        "i = Range(begin, n, step)\nh = Cast<to = 1>(i)\nm = Mul(h, half)\ny = Add(m, c)",
        "m = Add(g, c)\ny = Concat<axis = 1>(m, c)",
    ],
    ids=["moved", "counted in integers", "joined"],
)
def test_what_moves_and_scales_them_stays_float_too(moved: str) -> None:
    model = build_network(
        WIDTH + CENTRES + moved,
        {"x": (1, 3, 8, "W")},
        **CONSTANTS,
        k=np.array([1, 1, 1, -1]),
    )
    graph = Graph.from_proto(model).with_shapes()
    names = {node.name or "" for node in graph.nodes}
    assert {name for name in names if name.endswith(("_m", "_y"))} <= nodes_with_positions(
        graph
    ).keys()


@pytest.mark.parametrize(
    "bounded",
    [
        "i = Range(begin, n, step)\nt = Gather(table, i)\ny = Add(c, t)",
        CENTRES + "t = Div(g, f)\ny = Add(c, t)",
        CENTRES + "t = Sin(g)\ny = Add(c, t)",
    ],
    ids=["rows of a table", "shares of the width", "waves"],
)
def test_what_stays_bounded_in_any_size_becomes_integers(bounded: str) -> None:
    assert "Add_y" not in _quantize(bounded).plan.floats


def test_positions_of_a_fixed_size_are_constants() -> None:
    assert _quantize(CENTRES + "y = Add(c, g)", width=8).plan.floats == {}
