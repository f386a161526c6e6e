from __future__ import annotations

import numpy as np
import pytest

from ptq.rewrite.prepare.shape_inference import ShapeValues, get_symbolic_shape

A, B = np.meshgrid(np.arange(-7, 8), np.arange(-7, 8))


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Min", "Max"])
def test_integers_are_reckoned_with_as_onnx_runtime_does(op, parsed, same_function):
    a, b = A.reshape(-1), B.reshape(-1)
    a, b = (a[b != 0], b[b != 0]) if op == "Div" else (a, b)
    for start in range(0, len(a), 50):
        left, right = (v[start : start + 50].astype(np.int64) for v in (a, b))
        text = (
            f"g (int64[{len(left)}] z) => (int64[{len(left)}] y) {{ t = {op}(l, r) y = Add(t, z) }}"
        )
        graph = parsed(text, l=left, r=right)
        known = ShapeValues().visit(graph.nodes[0])
        frozen = parsed(
            f"g (int64[{len(left)}] z) => (int64[{len(left)}] y) {{ y = Add(t, z) }}",
            t=np.array(known.tolist(), np.int64),
        )
        same_function(graph, frozen, {"z": np.zeros(len(left), np.int64)}, tolerance=0)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("Add(s, zero)", ["dim N", 3]),
        ("Add(s, one)", [None, 4]),
        ("Mul(s, one)", ["dim N", 3]),
        ("Mul(s, zero)", [0, 0]),
        ("Sub(s, s)", [0, 0]),
        ("Div(s, one)", ["dim N", 3]),
        ("Max(s, s)", ["dim N", 3]),
        ("Max(s, one)", [None, 3]),
        ("Equal(s, minus)", [False, False]),
        ("Equal(s, one)", [None, False]),
        ("Concat<axis=0>(s, one)", ["dim N", 3, 1]),
        ("Unsqueeze(s, zero)", [["dim N", 3]]),
        ("Gather(s, one)", [3]),
        ("Gather(s, minus)", [3]),
        ("Slice(s, minus, far, zero, minus)", [3, "dim N"]),
        ("Slice(s, zero, one)", ["dim N"]),
        ("Slice(s, far, far, zero, minus)", ["dim N"]),
        ("Cast<to=6>(s)", ["dim N", 3]),
        ("Cast<to=3>(s)", [None, 3]),
        ("Cast<to=9>(s)", [None, True]),
    ],
)
def test_symbols_pass_through_what_cannot_change_them(call, expected, parsed):
    text = f"g (float[N,3] x) => (int64[k] y) {{ s = Shape(x) y = {call} }}"
    constants = {"zero": 0, "one": 1, "minus": -1, "far": -(2**62)}
    graph = parsed(text, **{name: np.array([v], np.int64) for name, v in constants.items()})
    graph.nodes[1].outputs[0].type = None
    values = ShapeValues()
    values.visit(graph.nodes[0])
    assert values.visit(graph.nodes[1]).tolist() == expected


def test_a_number_beyond_64_bits_is_unknown(parsed):
    graph = parsed(
        "g (float[N,3] x) => (int64[2] y) { s = Shape(x) m = Mul(s, huge) y = Cast<to=6>(m) }",
        huge=np.array([2**63 - 1], np.int64),
    )
    values = ShapeValues()
    assert [values.visit(node) is None for node in graph.nodes] == [False, False, True]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("Unsqueeze<axes=[0]>(s)", [["dim N", 3]]),
        ("Unsqueeze<axes=[-1]>(s)", [["dim N"], [3]]),
        ("Squeeze<axes=[0]>(one)", 1),
        ("Squeeze(one)", 1),
    ],
)
def test_axes_that_are_an_attribute_of_older_opsets_are_followed(call, expected, parsed):
    text = f"g (float[N,3] x) => (int64[k] y) {{ s = Shape(x) y = {call} }}"
    graph = parsed(text, opset=12, one=np.array([1], np.int64))
    graph.nodes[1].outputs[0].type = None
    values = ShapeValues()
    values.visit(graph.nodes[0])
    assert values.visit(graph.nodes[1]).tolist() == expected


def test_dimensions_without_a_name_are_symbols_of_their_own(parsed):
    graph = parsed("g (float[N,?,2] x) => (float[a,b,2] y) { y = Relu(x) }")
    named, anonymous, static = get_symbolic_shape(graph.inputs[0])
    assert (named, static) == ("dim N", 2)
    assert anonymous == "axis 1 of x"
