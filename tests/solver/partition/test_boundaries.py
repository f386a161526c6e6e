"""Tensors between integers and float, of networks so small that it is plain where ONNX Runtime has channels first."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from networks import build_network, gaussian_array

from ptq.model.graph import Graph
from ptq.model.node import get_name
from ptq.solver.partition.boundaries import find_per_channel_boundaries

C = 8
GIVEN = {
    "w": gaussian_array(C, 3, 3, 3),
    "deep": gaussian_array(C, 1, 3, 3, seed=1),
    "square": gaussian_array(C, C, 1, 1, seed=2),
}
SAME = "<pads = [1, 1, 1, 1]>"
DEEP = "<pads = [1, 1, 1, 1], group = 8>"
ISLAND = f"h = HardSwish(c)\nd = Conv{DEEP}(h, deep)\ns = HardSwish(d)"
LAST = "y = Conv(s, square)"


def found(
    between: str, floats: Collection[str], last: str = LAST, side: int = 8
) -> dict[str, set[str]]:
    model = build_network(
        f"c = Conv{SAME}(x, w)\n{between}\n{last}", {"x": (1, 3, side, side)}, **GIVEN
    )
    graph = Graph.from_proto(model).with_shapes()
    written = {get_name(node.outputs[0]): node.name or "" for node in graph.nodes}
    tensors = {node: name for name, node in written.items()}
    seeing = find_per_channel_boundaries(graph, [written[name] for name in floats])
    return {name: {tensors[node] for node in nodes} for name, nodes in seeing.items()}


def inside(*case: Any, **options: Any) -> dict[str, set[str]]:
    """Those that are no output."""
    return {name: nodes for name, nodes in found(*case, **options).items() if name != "y"}


def test_a_float_layer_parts_the_tensors_before_it_from_those_behind() -> None:
    assert inside(ISLAND, "hds") == {"c": {"c"}, "s": {"y"}}


def test_integers_beside_float_see_the_factors_too() -> None:
    assert inside(ISLAND, "hds", "p = Add(s, c)\ny = Conv(p, square)") == {
        "c": {"c", "p"},
        "s": {"p"},
    }
    both = inside(ISLAND, "hds", "p = HardSwish(s)\ny = Conv(s, square)\nz = Add(p, y)")
    assert both["s"] == {"p", "y"}


@pytest.mark.parametrize(
    ("between", "floats"),
    [
        ("s = HardSwish(c)", "s"),
        ("h = Sigmoid(c)\ns = Mul(h, c)", "hs"),
        ("h = HardSwish(c)\nq = Conv(c, square)\ns = Add(h, q)", "h"),
        ("h = HardSwish(c)\nq = Conv(h, square)\nd = Conv<group = 8>(h, deep)\ns = Identity(q)", "hd"),
    ],
    ids=["one function", "a gate", "beside integers", "read by integers too"],
)  # fmt: skip
def test_between_integers_channels_come_last(between: str, floats: str) -> None:
    assert "c" not in inside(between, floats)
    assert "s" not in inside(between, floats)


def test_a_transpose_puts_channels_last_before_and_behind_it() -> None:
    # it passes a function and a QuantizeLinear, which then takes 100 times as long
    before = f"{ISLAND}\nt = Transpose<perm = [0, 3, 2, 1]>(s)\nu = HardSwish(t)"
    assert inside(before, "hdstu", "y = Conv(u, square)").keys() == {"c"}
    behind = "h = HardSwish(c)\nt = Transpose<perm = [0, 2, 3, 1]>(h)"
    assert inside(behind, "ht", "y = Identity(t)") == {}


def test_first_and_last_layers_in_float_have_boundaries_on_one_side() -> None:
    assert inside("s = HardSwish(c)", "cs") == {"s": {"y"}}
    assert inside("s = HardSwish(c)", "sy") == {"c": {"c"}}


def test_outputs_are_float() -> None:
    assert found("s = Relu(c)", "") == {"y": {"y"}}
    assert found(ISLAND, "hdsy")["c"] == {"c"}
    assert "y" not in found(ISLAND, "hdsy")


def test_a_few_values_a_channel_are_not_worth_it() -> None:
    assert found(ISLAND, "hds", side=3) == {}
    assert found(ISLAND, "hds", side=4).keys() == {"c", "s", "y"}


def test_whole_numbers_bear_no_layout() -> None:
    shaped = f"h = HardSwish(c)\nd = Conv{DEEP}(h, deep)\nn = Shape(h)\ns = Reshape(c, n)"
    assert inside(shaped, "hdn") == {"c": {"c", "s"}}
