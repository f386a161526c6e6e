"""LayerNormalization in pieces; ONNX Runtime's floats before and after are the oracle."""

from __future__ import annotations

import re

import numpy as np
import pytest

from ptq.rewrite.change import Change
from ptq.rewrite.prepare import layer_norm_pattern
from ptq.rewrite.prepare.fuse_layer_norm import fuse_layer_norm

HEAD = "g (float[N,3,8] x) => (float[N,3,8] y) "
CONSTANTS = {
    "two": np.float32(2),
    "eps": np.float32(1e-5),
    "g": np.linspace(0.5, 2, 8, dtype=np.float32),
    "b": np.linspace(-1, 1, 8, dtype=np.float32),
    "row": np.linspace(1, 2, 3, dtype=np.float32)[:, None],
    "last": np.array([-1]),
    "zero": np.float32(0),
    "deep": np.full((1, 1, 1, 1), 1e-5, np.float32),
    "first": np.array([0]),
    "one": np.float32(1),
    "half": np.float32(-0.5),
    "g3": np.linspace(0.5, 2, 8, dtype=np.float32)[None, None],
    "b3": np.linspace(-1, 1, 8, dtype=np.float32)[None, None],
}
TORCH = """m = ReduceMean<axes=[-1]>(x) c = Sub(x, m) q = Pow(c, two) v = ReduceMean<axes=[-1]>(q)
    e = Add(v, eps) s = Sqrt(e) """
POOLED = """m = GlobalAveragePool(x) c = Sub(x, m) q = Mul(c, c) v = GlobalAveragePool(q)
    e = Add(v, eps) s = Sqrt(e) r = Reciprocal(s) """
FAST = """m = ReduceMean<axes=[-1]>(x) p = Mul(x, x) w = ReduceMean<axes=[-1]>(p) h = Mul(m, m)
    d = Sub(w, h) v = Max(zero, d) e = Add(v, eps) """
NORMALIZED = {
    "tf2onnx": POOLED
    + "k = Mul(r, g3) a = Mul(x, k) h = Neg(m) t = Mul(h, k) u = Add(t, b3) y = Add(a, u)",
    "tf2onnx without gamma": POOLED
    + "a = Mul(x, r) h = Neg(m) t = Mul(h, r) u = Add(t, b3) y = Add(a, u)",
    "tf2onnx without beta": POOLED
    + "k = Mul(r, g3) a = Mul(x, k) h = Neg(m) t = Mul(h, k) y = Add(t, a)",
    "tf2onnx without both": POOLED + "a = Mul(x, r) t = Mul(m, r) y = Sub(a, t)",
    "a difference with beta": POOLED
    + "k = Mul(g, r) a = Mul(k, x) t = Mul(k, m) u = Sub(b, t) y = Add(u, a)",
    "a difference times a scale": POOLED + "k = Mul(r, g) n = Mul(c, k) y = Add(n, b)",
    "a fast variance": FAST
    + "r = Pow(e, half) c = Sub(x, m) k = Mul(r, g) n = Mul(c, k) y = Add(n, b)",
    "one by the root": FAST
    + "s = Sqrt(e) r = Div(one, s) c = Sub(x, m) n = Mul(r, c) k = Mul(n, g) y = Add(k, b)",
    "gamma by the root": FAST + "s = Sqrt(e) r = Div(g, s) c = Sub(x, m) y = Mul(c, r)",
    "torch": TORCH + "n = Div(c, s) k = Mul(n, g) y = Add(k, b)",
    "constants first": TORCH + "n = Div(c, s) k = Mul(g, n) y = Add(b, k)",
    "two differences": TORCH.replace("q = Pow(c, two)", "d = Sub(x, m) q = Mul(d, d)")
    + "n = Div(c, s) k = Mul(n, g) y = Add(k, b)",
    "no constants": TORCH + "y = Div(c, s)",
    "a scale alone": TORCH + "n = Div(c, s) y = Mul(n, g)",
    "a scale along another axis": TORCH + "n = Div(c, s) y = Mul(n, row)",
}
OTHERS = {
    "a fast variance of another sign": FAST.replace("Sub(w, h)", "Sub(h, w)")
    + "s = Sqrt(e) c = Sub(x, m) y = Div(c, s)",
    "another axis": TORCH.replace("axes=[-1]", "axes=[1]") + "y = Div(c, s)",
    "two axes": TORCH.replace("axes=[-1]", "axes=[1,2]") + "y = Div(c, s)",
    "another power": TORCH.replace("two", "eps") + "y = Div(c, s)",
    "not centred": TORCH + "y = Div(x, s)",
    "upside down": TORCH + "y = Div(s, c)",
    "a sum for the difference": POOLED + "a = Mul(x, r) t = Mul(m, r) y = Add(a, t)",
    "a negative sign": POOLED + "a = Mul(x, r) t = Mul(m, r) y = Sub(t, a)",
    "two scales": POOLED + "k = Mul(r, g) a = Mul(x, k) t = Mul(m, r) y = Sub(a, t)",
    "more axes": POOLED.replace("eps", "deep")
    + "a = Mul(x, r) t = Mul(m, r) z = Sub(a, t) y = Squeeze(z, first)",
    "another mean": POOLED + "i = GlobalAveragePool(q) a = Mul(x, r) t = Mul(i, r) y = Sub(a, t)",
}


@pytest.mark.parametrize("body", NORMALIZED.values(), ids=list(NORMALIZED))
@pytest.mark.parametrize("opset", [13, 17, 18])
def test_pieces_become_a_layer_normalization(
    body, opset, parsed, same_function, operators, rng
) -> None:
    if opset == 18:
        body = body.replace("<axes=[-1]>(", "(")
        body = re.sub(r"ReduceMean\((.)\)", r"ReduceMean(\1, last)", body)
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


def test_a_normalized_tensor_with_two_readers_keeps_its_scales_outside(
    parsed, same_function, operators, rng
) -> None:
    body = "{" + TORCH + "n = Div(c, s) k = Mul(n, g) h = Mul(n, b) y = Add(k, h) }"
    before = parsed(HEAD + body, opset=17, **CONSTANTS).with_shapes()
    after = before.copy()
    assert fuse_layer_norm(after) == [Change("fuse_layer_norm", 1, new="LayerNormalization")]
    assert operators(after) == {"LayerNormalization": 1, "Mul": 2, "Add": 1}
    same_function(before, after, {"x": rng.normal(2, 3, (2, 3, 8)).astype(np.float32)}, 1e-5)


def test_the_search_follows_one_constant_behind_the_quotient(parsed, monkeypatch) -> None:
    steps = []

    def match_scale(value):
        steps.append(value)
        return original(value)

    original = layer_norm_pattern._match_scale
    monkeypatch.setattr(layer_norm_pattern, "_match_scale", match_scale)
    counts = []
    for count in (20, 40):
        links = " ".join(f"v{i + 1} = Mul(v{i}, g)" for i in range(count))
        graph = parsed(HEAD + f"{{v0 = Neg(x) {links} y = Neg(v{count})}}", **CONSTANTS)
        steps.clear()
        assert layer_norm_pattern.find_layer_norms(graph.with_shapes()) == []
        counts.append(len(steps))
    assert counts[1] < 2.5 * counts[0]
