"""Oracle: ONNX Runtime before and after, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from networks import gaussian_array

from ptq.rewrite.change import Change
from ptq.rewrite.prepare.move_views import move_views

HEAD = "g (float[N,4,1,6] x) => (float[N,M,K] y) "
CONSTANTS = {
    "w": gaussian_array(3, 4, 1, 1),
    "v": gaussian_array(2, 3, 1, 1, seed=1),
    "two": np.array([2]),
    "pads": np.array([0, 0, 1, 0, 0, 1]),
    "rows": np.array([0, 3, 6]),
    "low": np.float32(-0.5),
    "top": np.float32(0.5),
}
MOVED = {
    "squeeze": "c = Conv(x, w) s = Squeeze(c, two) r = Relu(s) y = Pad(r, pads)",
    "clip": "c = Conv(x, w) s = Squeeze(c, two) y = Clip(s, low, top)",
    "reshape": "c = Conv(x, w) s = Reshape(c, rows) y = Clip(s, , top)",
    "two views": "c = Conv(x, w) s = Squeeze(c, two) t = Transpose<perm=[0,2,1]>(s) y = Relu(t)",
}
STAY = {
    "no layer": "c = Neg(x) s = Squeeze(c, two) y = Relu(s)",
    "another reader": "c = Conv(x, w) s = Squeeze(c, two) r = Relu(s) y = Add(r, s)",
    "a reader of the layer": "c = Conv(x, w) s = Squeeze(c, two) r = Relu(s) d = Squeeze(c, two) y = Add(r, d)",
    "no activation": "c = Conv(x, w) s = Squeeze(c, two) y = Exp(s)",
    "another shape": "c = Neg(x) s = Squeeze(c, two) u = Unsqueeze(s, zero) y = Squeeze(u, zero)",
}


@pytest.mark.parametrize("body", MOVED.values(), ids=list(MOVED))
def test_an_activation_behind_views_of_a_layer_moves_to_the_layer(
    body, parsed, same_function, rng
) -> None:
    before = parsed(HEAD + "{" + body + "}", **CONSTANTS).with_shapes()
    after = before.copy()
    assert move_views(after) == [Change("move_views", 1)]
    ops = [node.op_type for node in after.nodes]
    assert ops[:2] in (["Conv", "Relu"], ["Conv", "Clip"])
    same_function(before, after, {"x": rng.normal(0, 1, (2, 4, 1, 6)).astype(np.float32)}, 0)


@pytest.mark.parametrize("body", STAY.values(), ids=list(STAY))
def test_other_activations_stay(body, parsed) -> None:
    before = parsed(HEAD + "{" + body + "}", zero=np.array([1]), **CONSTANTS).with_shapes()
    changes = move_views(before.copy())
    assert [change.kind for change in changes] in ([], ["cancel_views"])
    assert bool(changes) == ("Unsqueeze" in body)


def test_a_squeeze_between_two_layers_goes_with_its_unsqueeze(
    parsed, same_function, operators, rng
) -> None:
    text = """g (float[N,4,1,6] x) => (float[N,2,1,6] y) {
        c = Conv(x, w) s = Squeeze(c, two) r = Relu(s) u = Unsqueeze(r, two) y = Conv(u, v) }"""
    before = parsed(text, **CONSTANTS).with_shapes()
    after = before.copy()
    assert move_views(after) == [Change("move_views", 1), Change("cancel_views", 1)]
    assert operators(after) == {"Conv": 2, "Relu": 1}
    same_function(before, after, {"x": rng.normal(0, 1, (2, 4, 1, 6)).astype(np.float32)}, 0)


def test_the_size_that_a_target_leaves_open_follows_from_the_others(parsed, operators) -> None:
    text = """g (float[N,4] x) => (float[M,4] y) {
        n = Neg(x) r = Reshape(n, cube) s = Reshape(r, flat) y = Exp(s) }"""
    constants = {"cube": np.array([-1, 2, 4]), "flat": np.array([-1, 4])}
    after = parsed(text, **constants).with_shapes()
    assert move_views(after) == [Change("cancel_views", 1)]
    assert operators(after) == {"Neg": 1, "Exp": 1}


def test_reshapes_that_change_the_shape_stay(parsed) -> None:
    text = """g (float[N,4] x) => (float[M,2] y) {
        n = Neg(x) r = Reshape(n, cube) s = Reshape(r, flat) y = Exp(s) }"""
    constants = {"cube": np.array([-1, 2, 4]), "flat": np.array([-1, 2])}
    assert move_views(parsed(text, **constants).with_shapes()) == []


def test_the_activation_keeps_its_name(parsed) -> None:
    text = HEAD + "{ c = Conv(x, w) s = Squeeze(c, two) [act] r = Relu(s) y = Pad(r, pads) }"
    graph = parsed(text, **CONSTANTS).with_shapes()
    assert move_views(graph) == [Change("move_views", 1)]
    assert graph.nodes[1].name == "act"
