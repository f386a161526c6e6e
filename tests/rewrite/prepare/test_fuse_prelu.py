"""PReLU in pieces; ONNX Runtime's floats before and after are the oracle, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from ptq.rewrite.change import Change
from ptq.rewrite.prepare.fuse_prelu import fuse_prelu

HEAD = "g (float[2,3,4] x) => (float[2,3,4] y) "
CONSTANTS = {
    "c": np.array([[0.25], [-0.3], [0]], np.float32),
    "whole": np.linspace(-1, 1, 12, dtype=np.float32).reshape(1, 3, 4),
    "one": np.array([0.1], np.float32),
    "minus": np.float32(-1),
    "deep": np.full((1, 1, 1, 1), 0.1, np.float32),
    "inf": np.float32(np.inf),
}
PIECES = {
    "tf2onnx": "p = Relu(x) n = Neg(x) r = Relu(n) m = Mul(r, c) y = Add(p, m)",
    "another order": "p = Relu(x) n = Neg(x) r = Relu(n) m = Mul(c, r) y = Add(m, p)",
    "a difference": "p = Relu(x) n = Mul(minus, x) r = Relu(n) m = Mul(r, whole) y = Sub(p, m)",
    "one slope": "p = Relu(x) n = Neg(x) r = Relu(n) m = Mul(r, one) y = Add(p, m)",
}
OTHERS = {
    "the other sign": "p = Relu(x) n = Neg(x) r = Relu(n) m = Mul(r, c) y = Sub(m, p)",
    "no negation": "p = Relu(x) n = Mul(one, x) r = Relu(n) m = Mul(r, c) y = Add(p, m)",
    "another tensor": "p = Relu(x) e = Exp(x) n = Neg(e) r = Relu(n) m = Mul(r, c) y = Add(p, m)",
    "an infinite slope": "p = Relu(x) n = Neg(x) r = Relu(n) m = Mul(r, inf) y = Add(p, m)",
    "more axes": "p = Relu(x) n = Neg(x) r = Relu(n) m = Mul(r, deep) a = Add(p, m) y = Squeeze(a, first)",
}


@pytest.mark.parametrize("body", PIECES.values(), ids=list(PIECES))
def test_pieces_become_a_prelu(body, parsed, same_function, operators, rng) -> None:
    before = parsed(HEAD + "{" + body + "}", **CONSTANTS).with_shapes()
    after = before.copy()
    assert fuse_prelu(after) == [Change("fuse_prelu", 1, new="PRelu")]
    assert operators(after) == {"PRelu": 1}
    same_function(before, after, {"x": rng.normal(0, 3, (2, 3, 4)).astype(np.float32)}, 0)


@pytest.mark.parametrize("body", OTHERS.values(), ids=list(OTHERS))
def test_what_only_resembles_a_prelu_stays(body, parsed) -> None:
    graph = parsed(HEAD + "{" + body + "}", first=np.array([0]), **CONSTANTS).with_shapes()
    assert fuse_prelu(graph) == []
