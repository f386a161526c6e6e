from __future__ import annotations

import numpy as np
import pytest

from ptq.rewrite.change import Change
from ptq.rewrite.prepare.fuse_batchnorm import fuse_batchnorm
from ptq.rewrite.prepare.matmul_add_to_gemm import rewrite_matmul_add_to_gemm

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
    assert rewrite_matmul_add_to_gemm(after) == [Change("matmul_add_to_gemm", 1)]
    assert operators(after) == {"Gemm": 1}
    same_function(before, after, {"x": rng.standard_normal((2, 4)).astype(np.float32)})


@pytest.mark.parametrize("add", ["Add(t, b)", "Add(block, t)"])
@pytest.mark.parametrize("shape", ["5,2,4", "N,2,4", "2,N,4", "N,3,2,4"])
def test_a_dense_layer_of_more_axes_is_a_gemm_of_rows(
    shape, add, parsed, same_function, operators, rng
):
    y = shape[:-1] + "3"
    text = f"g (float[{shape}] x) => (float[{y}] y) {{ t = MatMul(x, w) y = {add} }}"
    constants = {**CONSTANTS, "block": np.array([[[1, 2, 3]]], np.float32)}
    before, after = parsed(text, **constants), parsed(text, **constants)
    assert rewrite_matmul_add_to_gemm(after) == [Change("matmul_add_to_gemm", 1)]
    assert operators(after) == {"Reshape": 2, "Gemm": 1}
    sizes = [7 if d == "N" else int(d) for d in shape.split(",")]
    same_function(before, after, {"x": rng.standard_normal(sizes).astype(np.float32)})


def test_layers_of_one_tensor_share_its_rows(parsed, operators):
    body = "t = MatMul(x, w) y = Add(t, b) u = MatMul(x, w) z = Add(u, b)"
    graph = parsed(
        f"g (float[N,2,4] x) => (float[N,2,3] y, float[N,2,3] z) {{ {body} }}", **CONSTANTS
    )
    assert rewrite_matmul_add_to_gemm(graph) == [Change("matmul_add_to_gemm", 2)]
    assert operators(graph) == {"Reshape": 3, "Gemm": 2}


@pytest.mark.parametrize(
    ("rows", "length", "opset"), [(2, 5, 13), (2, 5, 17), (2, 0, 17), (1, 0, 17), (0, 5, 17)]
)
def test_several_axes_may_vary_also_to_a_length_of_0(
    rows, length, opset, parsed, same_function, operators, rng
):
    body = "t = MatMul(x, w) u = Add(t, b) s = MatMul(x, w) v = Add(b, s) y = Mul(u, v)"
    text = f"g (float[N,T,4] x) => (float[N,T,3] y) {{ {body} }}"
    before, after = (parsed(text, opset, **CONSTANTS) for _ in range(2))
    assert rewrite_matmul_add_to_gemm(after) == [Change("matmul_add_to_gemm", 2)]
    kinds = {"Gemm": 2, "Reshape": 3, "Shape": 1, "Slice": 1, "Concat": 2, "Mul": 1}
    assert operators(after) == kinds
    same_function(before, after, {"x": rng.standard_normal((rows, length, 4)).astype(np.float32)})


@pytest.mark.parametrize(
    ("shape", "body"),
    [
        ("N,2,4", "t = MatMul(x, w) y = Add(t, row) z = Neg(t)"),
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
    assert rewrite_matmul_add_to_gemm(graph.with_shapes()) == []


NORM = {
    "scale": np.array([1, -2, 0.5], np.float32),
    "offset": np.array([3, 0, 1], np.float32),
    "mean": np.array([0.5, 0, -1], np.float32),
    "var": np.array([1, 2, 4], np.float32),
    "rows": np.array([-1, 3]),
    "back": np.array([-1, 2, 3]),
}


@pytest.mark.parametrize("dense", ["t = MatMul(x, w)", "u = MatMul(x, w) t = Add(u, b)"])
@pytest.mark.parametrize("view", ["Reshape(t, rows)", "Flatten<axis = 2>(t)"])
@pytest.mark.parametrize("target", ["y = Reshape(n, back)", "s = Shape(t) y = Reshape(n, s)"])
def test_a_batch_norm_of_rows_is_folded_into_its_layer(
    dense, view, target, parsed, same_function, operators, rng
):
    body = f"{dense} r = {view} n = BatchNormalization(r, scale, offset, mean, var) {target}"
    text = f"g (float[N,2,4] x) => (float[N,2,3] y) {{ {body} }}"
    types = "<float[N,2,3] t, float[N,2,3] u, float[M,3] r>"
    text = text.replace("{", f"{types} {{", 1)
    before, after = parsed(text, **CONSTANTS, **NORM), parsed(text, **CONSTANTS, **NORM)
    rewrite_matmul_add_to_gemm(after)
    fuse_batchnorm(after)
    found = operators(after)
    assert found.pop("Gemm") == 1
    assert found.pop("Reshape") == 2
    assert not found.keys() - {"Shape", "Slice", "Concat"}
    same_function(before, after, {"x": rng.standard_normal((5, 2, 4)).astype(np.float32)})


def test_a_batch_norm_of_other_channels_stays_outside(parsed, operators):
    body = (
        "t = MatMul(x, w) r = Reshape(t, rows) y = BatchNormalization(r, scale, offset, mean, var)"
    )
    text = f"g (float[N,1,4] x) => (float[M,2] y) <float[M,2] r> {{ {body} }}"
    norm = {name: array[:2] for name, array in NORM.items()} | {"rows": np.array([-1, 2])}
    graph = parsed(text, **CONSTANTS, **norm)
    assert rewrite_matmul_add_to_gemm(graph) == []
    assert operators(graph) == {"MatMul": 1, "Reshape": 1, "BatchNormalization": 1}
