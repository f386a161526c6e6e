"""Oracle: ONNX's definition of each operator — whether row i of its output reads row i of its input alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ptq.core.ops import OPS
from ptq.core.types import INT8, QuantParams
from ptq.executor.program import Program, Step
from ptq.executor.row_independence import INDEPENDENCE_RULES, Shape, are_rows_independent

N = 5  # rows
IMAGE, MATRIX, STACK = (N, 4, 6, 6), (N, 8), (N, 3, 8)


def is_independent(
    op: str,
    inputs: list[Any],
    result: Shape,
    *,
    params: dict[str, QuantParams] | None = None,
    **attrs: Any,
) -> bool:
    """Of one step: tuples are shapes of what arrives, None is absent, all else is constant."""
    names = [None if i is None else f"i{n}" for n, i in enumerate(inputs)]
    fed = {n: i for n, i in zip(names, inputs, strict=True) if isinstance(i, tuple)}
    fixed = {
        n: np.asarray(i)
        for n, i in zip(names, inputs, strict=True)
        if n is not None and n not in fed
    }
    step = Step("node", op, attrs, tuple(names), ("y",))
    program = Program((step,), params or {}, fixed, tuple(fed), ("y",))
    return are_rows_independent(step, program, (), N, {**fed, "y": result})


def test_every_row_of_the_table_has_a_rule_but_those_that_count_rows() -> None:
    assert set(OPS) - set(INDEPENDENCE_RULES) == {"Shape"}
    assert set(INDEPENDENCE_RULES) - set(OPS) == {
        "DequantizeLinear",
        "QuantizeLinear",
        "Requantize",
    }


ones = np.ones


@pytest.mark.parametrize(
    ("op", "inputs", "result"),
    [
        ("Conv", [IMAGE, ones((8, 4, 3, 3)), ones(8)], (N, 8, 4, 4)),
        ("MaxPool", [IMAGE], (N, 4, 3, 3)),
        ("Relu", [MATRIX], MATRIX),
        ("Clip", [IMAGE, np.float32(0), np.float32(6)], IMAGE),
        ("Mul", [IMAGE, ones((4, 1, 1))], IMAGE),
        ("Mul", [IMAGE, ones((1, 4, 1, 1))], IMAGE),
        ("Mul", [IMAGE, (N, 4, 1, 1)], IMAGE),
        ("Add", [IMAGE, IMAGE], IMAGE),
        ("Where", [ones((6, 6), bool), IMAGE, np.float32(1)], IMAGE),
        ("Gemm", [MATRIX, ones((8, 2)), ones(2)], (N, 2)),
        ("Gemm", [MATRIX, ones((8, 2)), ones((1, 2))], (N, 2)),
        ("MatMul", [MATRIX, ones((8, 2))], (N, 2)),
        ("MatMul", [STACK, ones((8, 2))], (N, 3, 2)),
        ("MatMul", [STACK, ones((1, 8, 2))], (N, 3, 2)),
        ("MatMul", [STACK, (N, 8, 2)], (N, 3, 2)),
        ("MatMul", [ones((2, 3)), STACK], (N, 2, 8)),
        ("MatMul", [IMAGE, ones((4, 6, 6))], IMAGE),
        ("Softmax", [MATRIX], MATRIX),
    ],
)
def test_rows_are_independent(op: str, inputs: list[Any], result: Shape) -> None:
    assert is_independent(op, inputs, result)


@pytest.mark.parametrize(
    ("op", "inputs", "result"),
    [
        ("Mul", [IMAGE, ones((N, 4, 1, 1))], IMAGE),  # a constant for each row
        ("Mul", [IMAGE, (N, 6)], (N, 4, 6, 6)),  # its rows meet those of images
        ("Mul", [MATRIX, ones((2, 1, 1))], (2, *MATRIX)),
        ("Add", [(N, 1), (N, 1)], (N, 1)),  # one row alone is a scalar
        ("Add", [(N,), np.float32(1)], (N,)),
        ("Where", [ones((N, 1, 1, 1), bool), IMAGE, np.float32(1)], IMAGE),
        ("Gemm", [MATRIX, ones((8, 2)), ones((N, 2))], (N, 2)),
        ("MatMul", [MATRIX, (8, 2)], (N, 2)),
        ("MatMul", [(N, 3), (3, 8)], (N, 8)),
        ("MatMul", [MATRIX, ones((2, 8, 3))], (2, N, 3)),
        ("MatMul", [STACK, ones((N, 8, 2))], (N, 3, 2)),
        ("MatMul", [ones((3, N)), MATRIX], (3, 8)),
        ("MatMul", [MATRIX, ones(8)], (N,)),
        ("MatMul", [STACK, (N, 2, 8, 4)], (N, 2, 3, 4)),
        ("Shape", [IMAGE], (4,)),
        ("Conv", [IMAGE, (8, 4, 3, 3)], (N, 8, 4, 4)),
        ("Reshape", [IMAGE, (2,)], (N, 144)),  # a computed shape
        ("NonZero", [IMAGE], (4, 9)),
    ],
)
def test_rows_are_together(op: str, inputs: list[Any], result: Shape) -> None:
    assert not is_independent(op, inputs, result)


def _axes(*axes: int) -> dict[str, Any]:
    return {"axes": np.array(axes)}


@pytest.mark.parametrize(
    ("op", "before", "after", "yes", "no"),
    [
        ("Gemm", (N, N), (N, 2), {}, {"transA": 1}),
        ("Softmax", MATRIX, MATRIX, {"axis": 1}, {"axis": 0}),
        ("LogSoftmax", MATRIX, MATRIX, {"axis": -1}, {"axis": -2}),
        ("LpNormalization", MATRIX, MATRIX, {}, {"axis": 0}),
        ("LayerNormalization", STACK, STACK, {"axis": 1}, {"axis": -3}),
        ("ArgMax", MATRIX, (N, 1), {"axis": 1}, {}),
        ("Split", MATRIX, (N, 4), {"axis": 1}, {}),
        ("ReduceMean", IMAGE, (N, 4, 1, 1), _axes(2, 3), {}),
        ("ReduceMax", IMAGE, (N, 6, 6), _axes(1), _axes(-4)),
        ("ReduceSum", IMAGE, IMAGE, _axes(-1), {"axes": (), "noop_with_empty_axes": 1}),
        ("Squeeze", (N, 1, 8), (N, 8), _axes(1), {}),
        ("Unsqueeze", MATRIX, (N, 1, 8), _axes(1), _axes(0)),
        ("Unsqueeze", MATRIX, (N, 8, 1), _axes(-1), _axes(-3)),
        ("Slice", IMAGE, (N, 2, 6, 6), {"starts": 0, "ends": 2, **_axes(1)}, {"starts": 0, "ends": 2}),
        ("Slice", IMAGE, (N, 2, 6, 6), {"starts": 0, "ends": 2, **_axes(1)}, _axes(1)),
        ("Pad", MATRIX, (N, 10), {"pads": (0, 1, 0, 1)}, {"pads": (0, 1, 1, 1)}),
        ("Pad", MATRIX, (N, 10), {"pads": (1, 1), **_axes(1)}, {"pads": (1, 1), **_axes(-2)}),
        ("Transpose", STACK, (N, 8, 3), {"perm": (0, 2, 1)}, {"perm": (2, 0, 1)}),
        ("Transpose", STACK, (N, 8, 3), {"perm": (0, 2, 1)}, {}),
        ("Flatten", IMAGE, (N, 144), {}, {"axis": 2}),
        ("Flatten", IMAGE, (N, 144), {"axis": -3}, {"axis": 0}),
        ("Reshape", IMAGE, (N, 144), {"shape": (0, -1)}, {"shape": (N, -1)}),
        ("Reshape", IMAGE, (N, 144), {"shape": (-1, 144)}, {"shape": (0, 144), "allowzero": 1}),
        ("Tile", MATRIX, (N, 16), {"repeats": (1, 2)}, {"repeats": (2, 1)}),
        ("Resize nearest", IMAGE, (N, 4, 12, 12), {"scales": (1, 1, 2, 2)}, {"sizes": (N, 4, 12, 12)}),
        ("Resize linear", IMAGE, (N, 4, 12, 12), {"sizes": (12, 12), **_axes(2, 3)}, {}),
        ("Resize nearest", IMAGE, (N, 4, 12, 12), {"scales": (1, 1, 2, 2)}, {"scales": (2, 1, 2, 2)}),
    ],
)  # fmt: skip
def test_attributes_decide(
    op: str, before: Shape, after: Shape, yes: dict[str, Any], no: dict[str, Any]
) -> None:
    inputs = [before, np.ones((N, 2))] if op == "Gemm" else [before]
    assert is_independent(op, inputs, after, **yes)
    assert not is_independent(op, inputs, after, **no)


def test_what_a_reshape_leaves_to_the_first_axis_is_the_rows_or_not() -> None:
    assert is_independent("Reshape", [STACK], (N, 3, 4, 2), shape=(-1, 3, 4, 2))
    assert not is_independent("Reshape", [STACK], (3 * N, 8), shape=(-1, 8))
    assert not is_independent("Reshape", [STACK], (N * 24,), shape=(-1,))


def test_rows_are_concatenated_along_other_axes_only() -> None:
    assert is_independent("Concat", [IMAGE, IMAGE], (N, 8, 6, 6), axis=1)
    assert not is_independent("Concat", [IMAGE, IMAGE], (2 * N, 4, 6, 6), axis=-4)
    assert not is_independent("Concat", [IMAGE, np.ones(IMAGE)], (N, 8, 6, 6), axis=1)


def test_rows_are_gathered_or_gather() -> None:
    places, table = np.array([2, 0]), np.ones((9, 8))
    assert is_independent("Gather", [IMAGE, places], (N, 2, 6, 6), axis=1)
    assert not is_independent("Gather", [IMAGE, places], (2, 4, 6, 6))
    assert is_independent("Gather", [table, (N, 3)], (N, 3, 8))
    assert not is_independent("Gather", [table, (N, 3)], (9, N, 3), axis=1)
    assert not is_independent("Gather", [IMAGE, (N, 2)], (N, N, 2, 6, 6), axis=1)


def test_rows_are_expanded_along_other_axes_only() -> None:
    assert is_independent("Expand", [(N, 1, 8), np.array([1, 3, 8])], STACK)
    assert is_independent("Expand", [(N, 1, 8), np.array([3, 8])], STACK)
    assert not is_independent("Expand", [(1, 1, 8), np.array([N, 3, 8])], STACK)
    assert not is_independent("Expand", [MATRIX, np.array([2, 1, 1])], (2, N, 8))


@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
def test_scales_along_the_rows_keep_them_together(op: str) -> None:
    def along(axis: int) -> dict[str, QuantParams]:
        return {"y": QuantParams(np.ones(N, np.float32), np.zeros(N, np.int64), INT8, axis)}

    assert is_independent(op, [(N, N)], (N, N), params=along(1))
    assert not is_independent(op, [(N, N)], (N, N), params=along(0))
    assert not is_independent(op, [(N, N)], (N, N), params=along(-2))
