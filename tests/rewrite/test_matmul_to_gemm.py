from __future__ import annotations

import numpy as np
import pytest

from ptq.rewrite.matmul_to_gemm import matmul_to_gemm

CONSTANTS = {
    "w": np.arange(12, dtype=np.float32).reshape(4, 3) - 5,
    "b": np.array([1, 2, 3], np.float32),
    "row": np.array([[1, 2, 3]], np.float32),
    "column": np.array([[1], [2]], np.float32),
    "scalar": np.float32(1),
}


@pytest.mark.parametrize("add", ["Add(t, b)", "Add(b, t)", "Add(t, row)"])
def test_a_dense_layer_is_one_gemm(add, parsed, same_function, operators, rng):
    text = f"g (float[N,4] x) => (float[N,3] y) {{ t = MatMul(x, w) y = {add} }}"
    before, after = parsed(text, **CONSTANTS), parsed(text, **CONSTANTS)
    assert matmul_to_gemm(after) == ["turned 1 MatMul node into Gemm"]
    assert operators(after) == {"Gemm": 1}
    same_function(before, after, {"x": rng.standard_normal((2, 4)).astype(np.float32)})


@pytest.mark.parametrize(
    ("shape", "body"),
    [
        ("5,2,4", "t = MatMul(x, w) y = Add(t, b)"),
        ("2,4", "t = MatMul(x, w) y = Add(t, column)"),
        ("2,4", "t = MatMul(x, w) y = Add(t, scalar)"),
        ("2,4", "t = MatMul(x, w) y = Add(t, t)"),
        ("2,4", "t = MatMul(x, w) u = Add(t, b) y = Add(t, u)"),
        ("2,4", "v = Neg(w) t = MatMul(x, v) y = Add(t, b)"),
    ],
)
def test_other_products_stay(shape, body, parsed):
    rank = ",".join("abc"[: shape.count(",") + 1])
    graph = parsed(f"g (float[{shape}] x) => (float[{rank}] y) {{ {body} }}", **CONSTANTS)
    assert matmul_to_gemm(graph.with_shapes()) == []
