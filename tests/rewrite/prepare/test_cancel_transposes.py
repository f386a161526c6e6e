"""Oracle: ONNX Runtime before and after, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from ptq.rewrite.change import Change
from ptq.rewrite.prepare.cancel_transposes import cancel_transposes

HEAD = "g (float[2,3,4,5] x) => (float[2,3,4,5] y) "
TO_LAST, TO_FIRST = "Transpose<perm=[0,2,3,1]>", "Transpose<perm=[0,3,1,2]>"
CONSTANTS = {
    "cube": np.float32(3),
    "channels": np.array([1, -2, 3], np.float32),
    "whole": np.arange(60, dtype=np.float32).reshape(4, 5, 3),
    "batch": np.array([1, 2], np.float32)[:, None, None, None],
    "five": np.ones((1, 1, 1, 1, 1), np.float32),
}
BODIES = {
    "nothing between": f"a = Neg(x) t = {TO_LAST}(a) y = {TO_FIRST}(t)",
    "a function": f"t = {TO_LAST}(x) e = Exp(t) y = {TO_FIRST}(e)",
    "a power and a factor": f"t = {TO_LAST}(x) p = Pow(t, cube) m = Mul(cube, p) y = {TO_FIRST}(m)",
    "channels": f"t = {TO_LAST}(x) m = Mul(t, channels) s = Sub(channels, m) y = {TO_FIRST}(s)",
    "slopes": f"t = {TO_LAST}(x) p = PRelu(t, whole) y = {TO_FIRST}(p)",
    "four axes": f"t = {TO_LAST}(x) p = Add(t, batch) y = {TO_FIRST}(p)",
    "readers of the first": f"t = {TO_LAST}(x) e = Exp(t) r = {TO_FIRST}(e) "
    "s = ReduceSum<keepdims=0>(t) y = Add(r, s)",
}
OTHERS = {
    "another order": f"t = {TO_LAST}(x) e = Exp(t) u = {TO_LAST}(e) y = Reshape(u, shape)",
    "a reader between": f"t = {TO_LAST}(x) e = Exp(t) r = {TO_FIRST}(e) s = ReduceSum<keepdims=0>(e) y = Add(r, s)",
    "two tensors": f"t = {TO_LAST}(x) e = Exp(t) m = Mul(t, e) y = {TO_FIRST}(m)",
    "an axis": f"t = {TO_LAST}(x) e = Softmax<axis=1>(t) y = {TO_FIRST}(e)",
    "more axes": f"t = {TO_LAST}(x) e = Add(t, five) s = Squeeze(e, zero) y = {TO_FIRST}(s)",
    "an input that is the output": f"t = {TO_LAST}(x) y = {TO_FIRST}(t)",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=list(BODIES))
def test_inverse_transposes_around_elementwise_operators_go(
    body, parsed, same_function, operators, rng
) -> None:
    before = parsed(HEAD + "{" + body + "}", **CONSTANTS).with_shapes()
    after = before.copy()
    assert cancel_transposes(after) == [Change("cancel_transposes", 1)]
    assert operators(after)["Transpose"] == ("ReduceSum" in body)
    same_function(before, after, {"x": rng.normal(0, 1, (2, 3, 4, 5)).astype(np.float32)}, 0)
    declared = [value.shape for node in after.nodes for value in node.outputs]
    assert declared == [v.shape for node in after.with_shapes().nodes for v in node.outputs]


@pytest.mark.parametrize("body", OTHERS.values(), ids=list(OTHERS))
def test_other_transposes_stay(body, parsed, operators) -> None:
    sizes = {"shape": np.array([2, 3, 4, 5]), "zero": np.array([0])}
    before = parsed(HEAD + "{" + body + "}", **CONSTANTS, **sizes).with_shapes()
    after = before.copy()
    assert cancel_transposes(after) == []
    assert operators(after) == operators(before)
