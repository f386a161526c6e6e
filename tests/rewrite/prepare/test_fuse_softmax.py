"""Softmax and LogSoftmax in pieces; ONNX Runtime's floats before and after are the oracle."""

from __future__ import annotations

import numpy as np
import pytest

from ptq.rewrite.change import Change
from ptq.rewrite.prepare.fuse_softmax import fuse_softmax

HEAD = "g (float[N,3,8] x) => (float[N,3,8] y) "
CONSTANTS = {
    "last": np.array([-1]),
    "middle": np.array([1]),
    "column": np.array([0, 3, 1]),
    "both": np.array([1, 2]),
}
LESS = "m = ReduceMax<axes=[-1]>(x) c = Sub(x, m) e = Exp(c) "
SOFTMAX = {
    "less the greatest": LESS + "s = ReduceSum(e, last) y = Div(e, s)",
    "not less the greatest": "e = Exp(x) s = ReduceSum(e, last) y = Div(e, s)",
    "another axis": LESS.replace("-1", "1") + "s = ReduceSum(e, middle) y = Div(e, s)",
    "axes put back": "m = ReduceMax<axes=[-1], keepdims=0>(x) n = Reshape(m, column) c = Sub(x, n) e = Exp(c)"
    "s = ReduceSum<keepdims=0>(e, last) t = Unsqueeze(s, last) y = Div(e, t)",
    "less the greatest of others": LESS.replace("-1", "1") + "s = ReduceSum(e, last) y = Div(e, s)",
}
LOG = {
    "less the greatest": LESS + "s = ReduceSum(e, last) l = Log(s) y = Sub(c, l)",
    "not less the greatest": "e = Exp(x) s = ReduceSum(e, last) l = Log(s) y = Sub(x, l)",
}
OTHERS = {
    "two axes": LESS + "s = ReduceSum(e, both) y = Div(e, s)",
    "a sum of something else": LESS + "s = ReduceSum(c, last) y = Div(e, s)",
    "upside down": LESS + "s = ReduceSum(e, last) y = Div(s, e)",
    "another difference": LESS + "s = ReduceSum(e, last) l = Log(s) y = Sub(x, l)",
    "no exponential": "s = ReduceSum(x, last) y = Div(x, s)",
}


@pytest.mark.parametrize(
    ("op", "body"),
    [("Softmax", body) for body in SOFTMAX.values()] + [("LogSoftmax", b) for b in LOG.values()],
    ids=[*SOFTMAX, *(f"log, {name}" for name in LOG)],
)
def test_pieces_become_one_node(op, body, parsed, same_function, operators, rng) -> None:
    before = parsed(HEAD + "{" + body + "}", opset=13, **CONSTANTS).with_shapes()
    after = before.copy()
    changes = fuse_softmax(after)
    assert changes == [Change("fuse_softmax", 1, new=op)]
    left = {"ReduceMax": 1, "Sub": 1} if body == SOFTMAX["less the greatest of others"] else {}
    assert operators(after) == {op: 1, **left}
    same_function(before, after, {"x": rng.normal(2, 3, (2, 3, 8)).astype(np.float32)}, 1e-5)


@pytest.mark.parametrize("body", OTHERS.values(), ids=list(OTHERS))
def test_what_only_resembles_it_stays(body, parsed, operators) -> None:
    before = parsed(HEAD + "{" + body + "}", opset=13, **CONSTANTS).with_shapes()
    after = before.copy()
    changes = fuse_softmax(after)
    assert changes == []
    assert operators(after) == operators(before)


def test_pieces_before_opset_13_raise_it(parsed, same_function, operators, rng) -> None:
    body = "e = Exp(x) s = ReduceSum<axes=[1]>(e) y = Div(e, s)"
    before = parsed(HEAD + "{" + body + "}", opset=11).with_shapes()
    after = before.copy()
    changes = fuse_softmax(after)
    assert changes == [
        Change("upgrade_opset_for_fusion", old="11", new="13"),
        Change("fuse_softmax", 1, new="Softmax"),
    ]
    assert (operators(after), after.opset) == ({"Softmax": 1}, 13)
    same_function(before, after, {"x": rng.normal(2, 3, (2, 3, 8)).astype(np.float32)}, 1e-5)
