"""Divisions by constants and PRelus of one slope; ONNX Runtime's floats before and after are the oracle."""

from __future__ import annotations

import numpy as np
import pytest

from ptq.model.session.session import Session
from ptq.rewrite.change import Change
from ptq.rewrite.prepare.prepare import prepare
from ptq.rewrite.prepare.simplify_constant_ops import simplify_constant_ops


@pytest.mark.parametrize("divisor", [np.float32(6), np.array([[0.5, -2, 3]], np.float32)])
def test_a_division_by_a_constant_is_a_multiplication(
    divisor, parsed, same_function, operators, rng
) -> None:
    text = "g (float[2,3] x) => (float[2,3] y) { y = Div(x, d) }"
    before, after = (parsed(text, d=divisor) for _ in range(2))
    assert simplify_constant_ops(after) == [Change("simplify_constant_ops", 1, "Div", "Mul")]
    assert operators(after) == {"Mul": 1}
    same_function(before, after, {"x": rng.normal(size=(2, 3)).astype(np.float32)})


@pytest.mark.parametrize(
    ("kind", "body", "divisor"),
    [
        ("float", "y = Div(x, d)", np.float32([1, 0, 2])),
        ("float", "y = Div(x, d)", np.float32(np.inf)),
        ("float", "y = Div(x, d)", np.float32(1e-39)),
        ("float", "y = Div(d, x)", np.float32(2)),
        ("int64", "y = Div(x, d)", np.int64(2)),
    ],
)
def test_other_divisions_stay(kind, body, divisor, parsed) -> None:
    text = f"g ({kind}[2,3] x) => ({kind}[2,3] y) {{ {body} }}"
    assert simplify_constant_ops(parsed(text, d=divisor)) == []


@pytest.mark.parametrize(
    "behind",
    [
        "y = Floor(q)",
        "r = Reshape(q, s)  n = Neg(r)  y = Ceil(n)",
        "c = Cast<to=6>(q)  y = Cast<to=1>(c)",
        "h = Sub(q, one)  b = Less(h, x)  y = Where(b, q, h)",
        "a = Relu(q)  y = Mod<fmod=1>(a, one)",
        "r = Round(q)  y = MatMul(q, w)",
        "h = Sub(q, one)  y = Sign(h)",
        "y = QuantizeLinear(q, one, zero)",
        "g = GatherND(q, s)  y = Floor(g)",
        "g = GatherElements(q, e)  y = Floor(g)",
        "g = ScatterND(q, e, w)  y = Floor(g)",
        "g = ScatterElements(q, e, e)  y = Floor(g)",
        "g, i = TopK(q, k)  y = Floor(g)",
        "g = CumSum(q, k)  y = Floor(g)",
        "g = ReduceSum(q, k)  y = Floor(g)",
        "g = LeakyRelu(q)  y = Floor(g)",
        "g = PRelu(q, slopes)  y = Floor(g)",
        "m = MatMul(x, w)  g = Concat<axis=0>(q, m)  y = Floor(g)",
        "b = Not(no)  y = If(b) <then_branch = t () => (float[2,3] a) { a = Floor(q) }, "
        "else_branch = e () => (float[2,3] a) { a = Neg(q) }>",
    ],
)
def test_a_division_stays_where_the_last_bit_of_the_quotient_decides(behind, parsed) -> None:
    text = f"g (float[2,3] x) => (float y) {{ q = Div(x, d)  {behind} }}"
    constants = {
        "one": np.float32(1),
        "zero": np.uint8(0),
        "no": np.array(False),
        "s": np.array([3, 2]),
        "e": np.array([[0, 1, 2]]),
        "k": np.array([1]),
        "w": np.eye(3, dtype=np.float32),
        "slopes": np.float32([1, 2, 3]),
    }
    inexact, exact = (parsed(text, d=np.float32(d), **constants).with_shapes() for d in (41, 0.25))
    assert simplify_constant_ops(inexact) == []
    assert simplify_constant_ops(exact) == [Change("simplify_constant_ops", 1, "Div", "Mul")]


@pytest.mark.parametrize(
    "behind",
    [
        "y = Floor(q)",
        "h = Sub(q, two)  y = Sign(h)",
        "c = CumSum(q, zero)  y = Floor(c)",
        "t, i = TopK(q, all)  y = Floor(t)",
    ],
)
def test_whole_quotients_keep_their_step_in_the_prepared_model(behind, parsed) -> None:
    text = f"g (float[N] x) => (float[N] y) {{ q = Div(x, d)  {behind} }}"
    rows = np.arange(1000, dtype=np.float32)
    given = parsed(
        text, d=np.float32(41), two=np.float32(2), zero=np.int64(0), all=np.array([1000])
    )
    before, after = (Session(g).run({"x": 41 * rows})[0] for g in (given, prepare(given).graph))
    np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize(
    ("before", "stays"),
    [
        ("m = MatMul(x, w)  p = Sigmoid(m)", False),
        ("m = MatMul(x, w)  p = Add(x, m)", False),
        ("m = MatMul(x, w)  p = Round(m)", True),
        ("p = Mul(x, x)", True),
        ("m = MatMul(x, w)  i = ArgMax(m)  p = Cast<to=1>(i)", True),
        ("m = MatMul(x, w)  v, i = TopK(m, k)  p = Cast<to=1>(i)", True),
        ("m = MatMul(x, w)  b = Less(m, x)  p = Where(b, x, one)", True),
        ("s = Shape(x)  p = Cast<to=1>(s)", True),
    ],
)
def test_a_division_stays_for_whole_dividends_alone(before, stays, parsed) -> None:
    text = f"g (float[2,3] x) => (bool y) {{ {before}  q = Div(p, d)  y = Greater(q, one) }}"
    constants = {"w": np.eye(3, dtype=np.float32), "one": np.float32(1), "k": np.array([1])}
    graph = parsed(text, d=np.float32(3), **constants).with_shapes()
    assert simplify_constant_ops(graph) == (
        [] if stays else [Change("simplify_constant_ops", 1, "Div", "Mul")]
    )


def test_a_division_before_a_layer_or_a_smooth_function_is_a_multiplication(parsed) -> None:
    text = "g (float[2,3] x) => (float y) { q = Div(x, d)  m = MatMul(q, w)  s = Tanh(m)  y = Round(s) }"
    graph = parsed(text, d=np.float32(41), w=np.eye(3, dtype=np.float32))
    assert simplify_constant_ops(graph) == [Change("simplify_constant_ops", 1, "Div", "Mul")]


def test_a_prelu_of_one_slope_is_a_leaky_relu(parsed, same_function, operators, rng) -> None:
    text = "g (float[2,3] x) => (float[2,3] y) { y = PRelu(x, s) }"
    before, after = (parsed(text, s=np.float32([0.3])) for _ in range(2))
    assert simplify_constant_ops(after) == [
        Change("simplify_constant_ops", 1, "PRelu", "LeakyRelu")
    ]
    assert operators(after) == {"LeakyRelu": 1}
    same_function(before, after, {"x": rng.normal(size=(2, 3)).astype(np.float32)})
    assert simplify_constant_ops(parsed(text, s=np.float32([0.3, 0.1, 0.2]))) == []
    assert simplify_constant_ops(parsed(text, s=np.float32([np.nan]))) == []


def test_a_prelu_whose_slope_has_more_axes_than_its_input_stays(parsed) -> None:
    text = "g (float[2,3] x) => (float[1,2,3] y) { y = PRelu(x, s) }"
    assert simplify_constant_ops(parsed(text, s=np.float32([[[0.3]]]))) == []


@pytest.mark.parametrize(
    "body", ["y = Max(x, b)", "y = Max(b, x)", "y = Min(x, b)", "y = Min(b, x)"]
)
def test_a_bound_by_a_number_is_a_clip(body, parsed, same_function, operators, rng) -> None:
    text = f"g (float[2,3] x) => (float[2,3] y) {{ {body} }}"
    before, after = (parsed(text, b=np.float32([[-0.4]])).with_shapes() for _ in range(2))
    assert simplify_constant_ops(after) == [Change("simplify_constant_ops", 1, body[4:7], "Clip")]
    assert operators(after) == {"Clip": 1}
    same_function(before, after, {"x": rng.normal(size=(2, 3)).astype(np.float32)})


@pytest.mark.parametrize(
    ("body", "bound"),
    [
        ("y = Max(x, b)", np.float32([1, 0, 2])),
        ("y = Max(x, b)", np.zeros((1, 1, 1), np.float32)),
        ("y = Min(x, b)", np.float32(np.nan)),
        ("y = Max(x, b, x)", np.float32(0)),
    ],
)
def test_other_bounds_stay(body, bound, parsed) -> None:
    text = f"g (float[2,3] x) => (float y) {{ {body} }}"
    assert simplify_constant_ops(parsed(text, b=bound).with_shapes()) == []
