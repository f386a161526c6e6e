"""Oracle: ONNX Runtime before and after, and the scales of a LiteRT plan."""

from __future__ import annotations

import numpy as np
import pytest

import ptq
from ptq.rewrite.prepare.bypass_concat import bypass_concat

BRANCHES = "float[N,4] x"


def head(parsed, cut, outputs="float[N,a] p, float[N,b] q", opset=17, **constants):
    text = f"""g ({BRANCHES}) => ({outputs}) {{
        a = Relu(x)  b = Sigmoid(x)  c = Tanh(x)
        j = Concat<axis=1>(a, b, c)
        {cut} }}"""
    arrays = {name: np.array(value, np.int64) for name, value in constants.items()}
    return parsed(text, opset=opset, **arrays).with_shapes()


CUTS = {
    "split in three": (
        "k, l, m = Split<axis=1>(j)  p = Neg(k)  q = Add(l, m)",
        {},
        {"Relu": 1, "Sigmoid": 1, "Tanh": 1, "Neg": 1, "Add": 1},
    ),
    "split in two": (
        "k, l = Split<axis=-1>(j, s)  p = Neg(k)  q = Neg(l)",
        {"s": [4, 8]},
        {"Relu": 1, "Sigmoid": 1, "Tanh": 1, "Neg": 2, "Concat": 1},
    ),
    "slices": (
        "k = Slice(j, n, f, o)  l = Slice(j, u, e, o, o)  p = Neg(k)  q = Neg(l)",
        {"n": [0], "f": [4], "u": [-4], "e": [1000], "o": [1]},
        {"Relu": 1, "Tanh": 1, "Neg": 2},
    ),
}


@pytest.mark.parametrize("kind", CUTS)
def test_parts_that_were_joined_whole_are_read_where_they_are_made(
    kind, parsed, same_function, operators, rng
):
    cut, constants, expected = CUTS[kind]
    before, after = (head(parsed, cut, **constants) for _ in range(2))
    [change] = bypass_concat(after)
    after.remove_unused()
    assert change.kind == "bypass_concat"
    assert operators(after) == expected
    same_function(before, after, {"x": rng.standard_normal((3, 4)).astype(np.float32)})


@pytest.mark.parametrize(
    ("cut", "constants"),
    [
        ("k, l = Split<axis=1>(j, s)  p = Neg(k)  q = Neg(l)", {"s": [5, 7]}),
        ("k, l = Split<axis=1>(j, s)  p = Neg(j)  q = Neg(j)", {"s": [4, 8]}),
        ("p, q = Split<axis=1>(j, s)", {"s": [4, 8]}),
        (
            "k = Slice(j, n, f, o, t)  p = Neg(k)  q = Neg(j)",
            {"n": [0], "f": [8], "o": [1], "t": [2]},
        ),
        ("k = Slice(j, n, f, z)  p = Neg(k)  q = Neg(j)", {"n": [0], "f": [4], "z": [0]}),
    ],
)
def test_other_cuts_stay(cut, constants, parsed, operators):
    graph = head(parsed, cut, **constants)
    before = operators(graph)
    assert bypass_concat(graph) == []
    assert operators(graph)["Concat"] == before["Concat"] == 1


def test_for_litert_each_branch_keeps_the_scale_of_its_own_range(parsed, rng):
    """A box head of ±100 beside a score head of ±1: with one scale the scores would have two bits."""
    text = """g (float[N,4] x) => (float[N,4] p, float[N,4] q) {
        a = Gemm(x, w1, b)  s = Gemm(x, w2, b)
        j = Concat<axis=1>(a, s)
        k, l = Split<axis=1>(j, n)  p = Relu(k)  q = Relu(l) }"""
    w = rng.standard_normal((2, 4, 4)).astype(np.float32)
    graph = parsed(
        text, w1=w[0] * 100, w2=w[1], b=np.zeros(4, np.float32), n=np.array([4, 4], np.int64)
    )
    x = rng.standard_normal((60, 1, 4)).astype(np.float32)
    result = ptq.quantize(graph.to_proto(), lambda: ({"x": row} for row in x), target="litert")
    scales = [float(result.plan.tensors[name].scale) for name in ("p", "q")]
    assert scales[0] > 20 * scales[1]
