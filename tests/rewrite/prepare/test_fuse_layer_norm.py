"""LayerNormalization in pieces; ONNX Runtime's floats before and after are the oracle."""

from __future__ import annotations

import numpy as np
import pytest

from ptq.rewrite.change import Change
from ptq.rewrite.prepare.fuse_layer_norm import fuse_layer_norm

HEAD = "g (float[N,3,8] x) => (float[N,3,8] y) "
CONSTANTS = {
    "two": np.float32(2),
    "eps": np.float32(1e-5),
    "g": np.linspace(0.5, 2, 8, dtype=np.float32),
    "b": np.linspace(-1, 1, 8, dtype=np.float32),
    "row": np.linspace(1, 2, 3, dtype=np.float32)[:, None],
    "last": np.array([-1]),
}
TORCH = """m = ReduceMean<axes=[-1]>(x) c = Sub(x, m) q = Pow(c, two) v = ReduceMean<axes=[-1]>(q)
    e = Add(v, eps) s = Sqrt(e) """
NORMALIZED = {
    "torch": TORCH + "n = Div(c, s) k = Mul(n, g) y = Add(k, b)",
    "constants first": TORCH + "n = Div(c, s) k = Mul(g, n) y = Add(b, k)",
    "two differences": TORCH.replace("q = Pow(c, two)", "d = Sub(x, m) q = Mul(d, d)")
    + "n = Div(c, s) k = Mul(n, g) y = Add(k, b)",
    "no constants": TORCH + "y = Div(c, s)",
    "a scale alone": TORCH + "n = Div(c, s) y = Mul(n, g)",
    "a scale along another axis": TORCH + "n = Div(c, s) y = Mul(n, row)",
}
OTHERS = {
    "another axis": TORCH.replace("axes=[-1]", "axes=[1]") + "y = Div(c, s)",
    "two axes": TORCH.replace("axes=[-1]", "axes=[1,2]") + "y = Div(c, s)",
    "another power": TORCH.replace("two", "eps") + "y = Div(c, s)",
    "not centred": TORCH + "y = Div(x, s)",
    "upside down": TORCH + "y = Div(s, c)",
}


@pytest.mark.parametrize("body", NORMALIZED.values(), ids=list(NORMALIZED))
@pytest.mark.parametrize("opset", [13, 17, 18])
def test_pieces_become_a_layer_normalization(
    body, opset, parsed, same_function, operators, rng
) -> None:
    if opset == 18:
        body = body.replace("<axes=[-1]>(x)", "(x, last)").replace("<axes=[-1]>(q)", "(q, last)")
    before = parsed(HEAD + "{" + body + "}", opset=opset, **CONSTANTS).with_shapes()
    after = before.copy()
    changes = fuse_layer_norm(after)
    assert changes[-1] == Change("fuse_layer_norm", 1, new="LayerNormalization")
    assert after.opset == max(opset, 17)
    left = {"Mul": 1} if "row" in body else {}
    assert operators(after) == {"LayerNormalization": 1, **left}
    same_function(before, after, {"x": rng.normal(2, 3, (2, 3, 8)).astype(np.float32)}, 1e-5)


@pytest.mark.parametrize("body", OTHERS.values(), ids=list(OTHERS))
def test_what_only_resembles_it_stays(body, parsed, operators) -> None:
    before = parsed(HEAD + "{" + body + "}", opset=13, **CONSTANTS).with_shapes()
    after = before.copy()
    changes = fuse_layer_norm(after)
    assert changes == []
    assert (operators(after), after.opset) == (operators(before), 13)
