"""Positions counted from sizes; the oracle is ONNX Runtime on the float model, with a size beyond the samples."""

from __future__ import annotations

import re

import numpy as np
import pytest
from networks import QuantizedNetwork, build_network, gaussian_array, quantize_network

from ptq.model.graph import Graph
from ptq.model.session.session import Session
from ptq.solver.partition.positions import find_nodes_with_positions

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


def _float_nodes(nodes: str) -> set[str]:
    constants = {
        **CONSTANTS,
        "k": np.array([1, 1, 1, -1]),
        "row": np.array([0]),
        "more": np.float32(3),
        "v": gaussian_array(2, 4, 1, 1),
        "angles": gaussian_array(2, 1),
        "last": np.array([3]),
        "channels": np.array([1]),
        "same": np.array([0, 0, 0, -1]),
    }
    model = build_network(WIDTH + nodes, {"x": (1, 3, 8, "W")}, **constants)
    return {*find_nodes_with_positions(Graph.from_proto(model).with_shapes())}


@pytest.mark.parametrize(
    "moved",
    [
        "m = Reshape(g, k)\ny = Sub(c, m)",
        "i = Range(begin, n, step)\nh = Cast<to = 1>(i)\nm = Mul(h, half)\ny = Add(m, c)",
        "m = Add(g, c)\ny = Concat<axis = 1>(m, c)",
        "l = Less(c, half)\nm = Where(l, g, c)\ny = Add(m, c)",
        "m = Neg(g)\np = Relu(m)\ny = Add(p, c)",
        "u = Unsqueeze(g, row)\nm = MatMul(angles, u)\ny = Cos(m)",
        "m = Add(c, g)\ny = Conv(m, v)",
    ],
    ids=["moved", "counted in integers", "joined", "chosen", "negated", "angles", "convolved"],
)
def test_what_reads_them_stays_float_too(moved: str) -> None:
    lines = [re.split(r" = |[(<]", line) for line in moved.splitlines()]
    names = {f"{operator}_{output}" for output, operator, *_ in lines if output in "my"}
    assert names <= _float_nodes(CENTRES + moved)


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


@pytest.mark.parametrize(
    "bounded",
    [
        "f = Cast<to = 1>(n)\nr = Range(zero, f, one)\nb = Div(more, f)\nm = Mul(r, b)\ny = Add(c, m)",
        "f = Cast<to = 1>(n)\nb = Reciprocal(f)\nr = Range(zero, f, one)\nm = Mul(b, r)\ny = Add(c, m)",
        "f = Cast<to = 1>(n)\nb = Sqrt(f)\ny = Div(c, b)",
        "d = Shape(c)\no = ConstantOfShape(d)\nm = Sub(one, o)\ny = Add(c, m)",
        "i = Range(begin, n, step)\nl = Less(i, step)\nm = Cast<to = 1>(l)\ny = Add(c, m)",
    ],
    ids=[
        "from 0 to 3",
        "by the size",
        "scale of attention",
        "mask of a shape",
        "mask of a comparison",
    ],
)
def test_what_is_bounded_is_no_position(bounded: str) -> None:
    assert "Add_y" not in _float_nodes(bounded)
    assert "Div_y" not in _float_nodes(bounded)


def test_positions_of_a_fixed_size_are_constants() -> None:
    assert _quantize(CENTRES + "y = Add(c, g)", width=8).plan.floats == {}


@pytest.mark.parametrize(
    "growing",
    [
        "f = Cast<to = 1>(s)\nb = ReduceProd<keepdims = 0>(f)",
        "b = ReduceSum(c, last)",
        "b = ReduceL2<axes = [2, 3]>(c)",
    ],
    ids=["number of pixels", "sum over the width", "length over all pixels"],
)
def test_what_grows_by_the_number_of_values_stays_float(growing: str) -> None:
    found = _float_nodes(growing + "\ny = Mul(c, b)")
    assert "Mul_y" in found
    if "last" in growing:
        assert "ReduceSum_b" in found


def test_a_sum_over_channels_does_not_grow_with_the_image() -> None:
    assert "Mul_y" not in _float_nodes("b = ReduceSum(c, channels)\ny = Mul(c, b)")


def test_a_mean_weighted_by_a_softmax_does_not_grow() -> None:
    pooled = "a = Softmax<axis = 3>(c)\nr = Reshape(a, same)\nm = Mul(r, c)\nb = ReduceSum(m, last)"
    assert "Add_y" not in _float_nodes(pooled + "\ny = Add(c, b)")
