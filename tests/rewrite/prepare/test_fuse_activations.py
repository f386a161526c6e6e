"""Functions in pieces; ONNX Runtime's floats before and after are the oracle."""

from __future__ import annotations

import numpy as np
import pytest

from ptq.rewrite.change import Change
from ptq.rewrite.prepare import activation_pattern
from ptq.rewrite.prepare.fuse_activations import fuse_activations

HEAD = "g (float[2,3,4] x) => (float[2,3,4] y) "
CONSTANTS = {
    "three": np.float32(3),
    "zero": np.float32(0),
    "top": np.float32(6),
    "six": np.full((1, 1), 6, np.float32),
    "sixth": np.float32(1 / 6),
    "half": np.float32(0.5),
    "one": np.ones(1, np.float32),
    "root2": np.float32(1.4142),
    "inverse": np.float32(0.70710677),
    "cubic": np.float32(0.044715),
    "slope": np.float32(0.7978845608),
    "rows": np.array([[0.5], [-2], [3]], np.float32),
    "columns": np.array([1, 2, 3, 4], np.float32),
}
PIECES = {
    "hard swish, divided last": (
        14,
        "HardSwish",
        "a = Add(x, three) c = Clip(a, zero, top) m = Mul(x, c) y = Div(m, six)",
    ),
    "hard swish, scaled first": (
        14,
        "HardSwish",
        "a = Add(three, x) c = Clip(a, zero, top) s = Mul(sixth, c) y = Mul(s, x)",
    ),
    "hard swish of HardSigmoid": (
        14,
        "HardSwish",
        "h = HardSigmoid<alpha=0.16666667, beta=0.5>(x) y = Mul(h, x)",
    ),
    "hard swish of a product": (
        14,
        "HardSwish",
        "p = Mul(x, x) a = Add(p, three) c = Clip(a, zero, top) m = Mul(p, c) y = Div(m, six)",
    ),
    "mish": (18, "Mish", "s = Softplus(x) t = Tanh(s) y = Mul(x, t)"),
    "gelu as torch": (
        20,
        "Gelu",
        "d = Div(x, root2) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half)",
    ),
    "gelu as jax": (
        20,
        "Gelu",
        "h = Mul(x, half) d = Mul(x, inverse) e = Erf(d) a = Add(one, e) y = Mul(h, a)",
    ),
    "gelu of a product": (
        20,
        "Gelu",
        "p = Mul(x, x) d = Div(p, root2) e = Erf(d) a = Add(e, one) m = Mul(p, a) y = Mul(m, half)",
    ),
    "gelu by tanh, a power": (
        20,
        "Gelu",
        "p = Pow(x, three) c = Mul(p, cubic) s = Add(x, c) r = Mul(s, slope) t = Tanh(r) "
        "a = Add(t, one) h = Mul(x, half) y = Mul(h, a)",
    ),
    "gelu by tanh, products": (
        20,
        "Gelu",
        "q = Mul(x, x) w = Mul(q, cubic) c = Mul(x, w) s = Add(c, x) r = Mul(slope, s) t = Tanh(r) "
        "a = Add(one, t) m = Mul(x, a) y = Mul(m, half)",
    ),
}
OTHERS = {
    "another offset": "a = Add(x, six) c = Clip(a, zero, top) m = Mul(x, c) y = Div(m, six)",
    "another bound": "a = Add(x, three) c = Clip(a, zero, three) m = Mul(x, c) y = Div(m, six)",
    "another factor": "a = Add(x, three) c = Clip(a, zero, top) m = Mul(x, c) y = Div(m, three)",
    "another slope": "h = HardSigmoid<alpha=0.2>(x) y = Mul(h, x)",
    "another value": "p = Exp(x) a = Add(p, three) c = Clip(a, zero, top) m = Mul(x, c) y = Div(m, six)",
    "erf unscaled": "e = Erf(x) a = Add(e, one) m = Mul(x, a) y = Mul(m, half)",
    "tanh alone": "t = Tanh(x) a = Add(t, one) m = Mul(x, a) y = Mul(m, half)",
    "divided by": "h = HardSigmoid<alpha=0.16666667>(x) y = Div(x, h)",
}


@pytest.mark.parametrize(("since", "op", "body"), PIECES.values(), ids=list(PIECES))
@pytest.mark.parametrize("opset", [13, 20])
def test_pieces_become_the_function(
    since, op, body, opset, parsed, same_function, operators, rng
) -> None:
    before = parsed(HEAD + "{" + body + "}", opset=opset, **CONSTANTS).with_shapes()
    after = before.copy()
    changes = fuse_activations(after)
    assert changes[-1] == Change("fuse_activations", 1, new=op)
    assert operators(after)[op] == 1
    assert set(operators(after)) <= {op, "Mul"}
    assert after.opset == max(opset, since)
    same_function(before, after, {"x": rng.normal(0, 3, (2, 3, 4)).astype(np.float32)}, 2e-3)


@pytest.mark.parametrize("body", OTHERS.values(), ids=list(OTHERS))
def test_what_only_resembles_a_function_stays(body, parsed, operators) -> None:
    before = parsed(HEAD + "{" + body + "}", opset=20, **CONSTANTS).with_shapes()
    after = before.copy()
    changes = fuse_activations(after)
    assert changes == []
    assert operators(after) == operators(before)


def test_a_constant_that_changes_the_shape_keeps_the_pieces(parsed) -> None:
    text = "g (float[4] x) => (float[1,4] y) {a = Add(x, three) c = Clip(a, zero, top) m = Mul(x, c) y = Div(m, six)}"
    graph = parsed(text, opset=14, **CONSTANTS).with_shapes()
    assert fuse_activations(graph) == []


def test_a_value_that_others_read_survives(parsed, same_function, rng) -> None:
    body = "{a = Add(x, three) c = Clip(a, zero, top) m = Mul(x, c) y = Div(m, six)}"
    text = "g (float[2,3,4] x) => (float[2,3,4] y, float[2,3,4] c) " + body
    before = parsed(text, opset=14, **CONSTANTS).with_shapes()
    after = before.copy()
    changes = fuse_activations(after)
    assert changes == [Change("fuse_activations", 1, new="HardSwish")]
    same_function(before, after, {"x": rng.normal(0, 3, (2, 3, 4)).astype(np.float32)})


SCALED = {
    "in the gate": (
        "Gelu",
        "h = Mul(half, x) d = Div(x, root2) e = Erf(d) a = Add(e, one) c = Mul(a, rows) y = Mul(h, c)",
    ),
    "with the number of the function": (
        "HardSwish",
        "a = Add(x, three) c = Clip(a, zero, top) s = Mul(c, rows) y = Mul(x, s)",
    ),
    "two constants": (
        "Mish",
        "s = Softplus(x) t = Tanh(s) u = Mul(t, rows) v = Mul(x, u) w = Mul(half, v) y = Mul(columns, w)",
    ),
    "of a scaled tensor": (
        "Mish",
        "z = Mul(x, rows) s = Softplus(z) t = Tanh(s) u = Mul(t, columns) y = Mul(z, u)",
    ),
}


@pytest.mark.parametrize(("op", "body"), SCALED.values(), ids=list(SCALED))
def test_a_constant_among_the_factors_stays_behind_the_function(
    op, body, parsed, same_function, operators, rng
) -> None:
    before = parsed(HEAD + "{" + body + "}", opset=20, **CONSTANTS).with_shapes()
    after = before.copy()
    assert fuse_activations(after) == [Change("fuse_activations", 1, new=op)]
    assert operators(after) == {op: 1, "Mul": 1 + ("z = " in body)}
    assert after.nodes[-1].op_type == "Mul"
    same_function(before, after, {"x": rng.normal(0, 3, (2, 3, 4)).astype(np.float32)}, 2e-3)


def test_a_function_keeps_the_constant_behind_it(parsed, operators) -> None:
    body = "{s = Softplus(x) t = Tanh(s) m = Mul(x, t) y = Mul(m, rows)}"
    graph = parsed(HEAD + body, opset=20, **CONSTANTS).with_shapes()
    assert fuse_activations(graph) == [Change("fuse_activations", 1, new="Mish")]
    assert [node.op_type for node in graph.nodes] == ["Mish", "Mul"]
    assert graph.nodes[-1].inputs[1].name == "rows"


def test_silu_has_no_operator_and_stays(parsed) -> None:
    graph = parsed(HEAD + "{t = Sigmoid(x) u = Mul(t, rows) y = Mul(x, u)}", **CONSTANTS)
    assert fuse_activations(graph.with_shapes()) == []


def test_a_product_that_others_read_has_one_function(parsed, same_function, operators, rng) -> None:
    body = """{s = Softplus(x) t = Tanh(s) u = Mul(t, rows) v = Mul(x, u) w = Mul(v, columns)
        a = Relu(v) b = Relu(w) y = Add(a, b)}"""
    before = parsed(HEAD + body, opset=20, **CONSTANTS).with_shapes()
    after = before.copy()
    assert fuse_activations(after) == [Change("fuse_activations", 1, new="Mish")]
    assert operators(after) == {"Mish": 1, "Mul": 2, "Relu": 2, "Add": 1}
    same_function(before, after, {"x": rng.normal(0, 3, (2, 3, 4)).astype(np.float32)}, 2e-3)


def test_a_constant_that_adds_axes_stays_behind_the_function(parsed, operators) -> None:
    text = """g (float[4] x) => (float[3,4] y) {
        s = Softplus(x) t = Tanh(s) u = Mul(t, columns) v = Mul(x, u) y = Mul(v, rows)}"""
    graph = parsed(text, opset=18, **CONSTANTS).with_shapes()
    assert fuse_activations(graph) == [Change("fuse_activations", 1, new="Mish")]
    assert operators(graph) == {"Mish": 1, "Mul": 2}


@pytest.mark.parametrize("constant", ["", " times rows"])
def test_float64_has_no_function_in_onnx_runtime(constant, parsed) -> None:
    gate = "Mul(c, rows)" if constant else "Mul(c, sixth)"
    text = f"""g (double[2,3,4] x) => (double[2,3,4] y) {{
        a = Add(x, three) c = Clip(a, zero, top) u = {gate} y = Mul(x, u)}}"""
    constants = {name: np.asarray(value, np.float64) for name, value in CONSTANTS.items()}
    assert fuse_activations(parsed(text, **constants).with_shapes()) == []


@pytest.mark.parametrize(
    ("link", "lengths"), [("Mul({x}, {x})", (8, 12)), ("Mul({x}, rows)", (20, 40))]
)
def test_the_search_takes_as_many_steps_for_each_product(
    link, lengths, parsed, monkeypatch
) -> None:
    """Squares of squares have 2ⁿ factors, and a chain of n constants has n products of up to n factors."""
    steps = []

    def factorize(*args):
        steps.append(args)
        return original(*args)

    original = activation_pattern._factorize
    monkeypatch.setattr(activation_pattern, "_factorize", factorize)
    counts = []
    for length in lengths:
        links = [f"v{i + 1} = {link.format(x=f'v{i}')}" for i in range(length)]
        body = f"v0 = Neg(x) {' '.join(links)} y = Neg(v{length})"
        graph = parsed(HEAD + "{" + body + "}", **CONSTANTS).with_shapes()
        steps.clear()
        assert activation_pattern.find_activations(graph) == []
        counts.append(len(steps))
    assert counts[1] < 2.5 * counts[0]
