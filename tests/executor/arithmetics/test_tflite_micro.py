"""Operators of the ``tflite-micro`` arithmetic that differ from the ``litert`` arithmetic.

Oracles: tflite-micro's bytes, recorded; gemmlowp's formula in Python's integers; the ``litert`` kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sites import int8_params, run_node

from ptq.core.errors import UnsupportedError
from ptq.executor.arithmetics import litert, tflite_micro
from ptq.kernels.fixed_point import rescale

EVERY_INT8 = np.arange(-128, 128).astype(np.int8)


def test_fully_connected_rounds_twice() -> None:
    """acc · M = 1.5 − 2^-9: one rounding gives 1; the first of two makes it 1.5, the second 2."""
    differing = []
    for acc in range(-127, 128):
        x, w = np.array([[1]], np.int8), np.array([[1]], np.int8)
        operands = [
            (x, int8_params(1.0)),
            (w, int8_params(1.0)),
            (np.array([acc - 1], np.int32), None),
        ]
        y = int8_params(3.9999, 0)
        ours = run_node("tflite-micro", "Gemm", operands, y, constants=[1, 2]).item()
        assert ours == int(rescale(np.int64(acc), 1.0 / float(y.scale)))
        differing.append(ours != run_node("litert", "Gemm", operands, y, constants=[1, 2]).item())
    assert any(differing)


def test_the_product_of_scales_is_formed_in_float64() -> None:
    """A pair of scales whose float32 product rounds, and a value that it moves over a tie."""
    a, b, y = int8_params(0.1), int8_params(0.3), int8_params(1.0 / 31)
    multipliers = (
        float(a.scale) * float(b.scale) / float(y.scale),
        float(a.scale * b.scale / y.scale),
    )
    assert multipliers[0] != multipliers[1]
    qa, qb = EVERY_INT8[:, None].copy(), EVERY_INT8[None, :].copy()
    products = qa.astype(np.int64) * qb
    for op, operands in (("Mul", [(qa, a), (qb, b)]), ("MatMul", [(qa, a), (qb, b)])):
        ours = run_node("tflite-micro", op, operands, y)
        expected = np.clip(rescale(products, multipliers[0]), -128, 127)
        np.testing.assert_array_equal(ours, expected)


def test_the_ratio_of_abs_div_and_relu_is_formed_in_float64() -> None:
    """Recorded from both runtimes: a ratio that float32 rounds to a tie, as 0.0015 / 0.0006 = 2.5."""
    x, y = int8_params(0.0015, -24), int8_params(0.0006, 0)
    q = np.array([-73, -25, -23, 25], np.int8)
    assert run_node("litert", "Abs", [(q, x)], y).tolist() == [123, 3, 3, 123]
    assert run_node("tflite-micro", "Abs", [(q, x)], y).tolist() == [122, 2, 2, 122]
    a, b, y = int8_params(0.027, 7), int8_params(0.0465, -21), int8_params(0.145161286, 127)
    operands = [(np.array([-47, -102], np.int8), a), (np.array([-5, -13], np.int8), b)]
    assert run_node("litert", "Div", operands, y).tolist() == [114, 73]
    assert run_node("tflite-micro", "Div", operands, y).tolist() == [113, 72]
    x, y = int8_params(0.0405, -47), int8_params(0.0162, 0)
    q = np.array([-46, -44, -42, -38], np.int8)
    assert run_node("litert", "Relu", [(q, x)], y).tolist() == [3, 8, 13, 23]
    assert run_node("tflite-micro", "Relu", [(q, x)], y).tolist() == [2, 7, 12, 22]
    operands = [(q, x), (np.full(4, 40, np.int8), int8_params(0.01))]
    assert run_node("litert", "PRelu", operands, y).tolist() == [3, 8, 13, 23]
    assert run_node("tflite-micro", "PRelu", operands, y).tolist() == [2, 7, 12, 22]
    x, y = int8_params(0.0285, -128), int8_params(0.0456, -101)
    q = np.array([-124, -116, -108], np.int8)
    assert run_node("litert", "LeakyRelu", [(q, x)], y, alpha=0.58).tolist() == [-98, -93, -88]
    assert run_node("tflite-micro", "LeakyRelu", [(q, x)], y, alpha=0.58).tolist() == [
        -99,
        -94,
        -89,
    ]


@pytest.mark.parametrize("zero_point", [-128, -40, 20])
def test_relu6_keeps_the_integers_of_its_input(zero_point: int) -> None:
    x, y = int8_params(0.05, zero_point), int8_params(0.025, zero_point)
    ours = run_node("tflite-micro", "Clip", [(EVERY_INT8, x)], y, min=0.0, max=6.0)
    six = min(zero_point + round(6 / float(x.scale)), 127)
    np.testing.assert_array_equal(ours, np.clip(EVERY_INT8, zero_point, six))
    rescaled = run_node("litert", "Clip", [(EVERY_INT8, x)], y, min=0.0, max=6.0)
    assert (ours != rescaled).any()


@pytest.mark.parametrize("bounds", [{"min": -1.0, "max": 1.0}, {"min": 0.0}, {"max": 6.0}])
def test_another_clamp_is_that_of_litert(bounds: dict[str, float]) -> None:
    x, y = int8_params(0.05, 3), int8_params(0.025, -4)
    outputs = [
        run_node(n, "Clip", [(EVERY_INT8, x)], y, **bounds) for n in ("tflite-micro", "litert")
    ]
    np.testing.assert_array_equal(*outputs)


def test_space_to_batch_pads_with_the_integer_zero() -> None:
    """Recorded from tflite-micro: where LiteRT pads with the zero point −128 it has 0."""
    x = np.full((1, 1, 2, 1), 5, np.int8)
    attrs: dict[str, Any] = {"block": (2, 1), "paddings": [[0, 1], [0, 0]]}
    params = int8_params(0.1, -128)
    assert run_node(
        "tflite-micro", "SpaceToBatchND", [(x, params)], params, **attrs
    ).ravel().tolist() == [5, 5, 0, 0]
    assert run_node(
        "litert", "SpaceToBatchND", [(x, params)], params, **attrs
    ).ravel().tolist() == [
        5,
        5,
        -128,
        -128,
    ]


@pytest.mark.parametrize(
    ("op", "scale", "zero_point", "recorded"),
    [
        ("Sigmoid", 2.0**-7, -128, {-127: 1}),
        ("Sigmoid", 2.0**-7, 40, {39: -1, 41: 1}),
        ("Sigmoid", 0.022753924131393433, -76, {-86: -14, -66: 14}),
        ("Tanh", 0.022753924131393433, -76, {-81: -14, -71: 14}),
    ],
)
def test_logistic_and_tanh_are_computed_in_fixed_point(
    op: str, scale: float, zero_point: int, recorded: dict[int, int]
) -> None:
    """Recorded from tflite-micro; these are all the integers of 256 at which LiteRT's table has another."""
    x, y = (
        int8_params(scale, zero_point),
        int8_params(1 / 256, -128) if op == "Sigmoid" else int8_params(1 / 128, 0),
    )
    ours, table = (run_node(n, op, [(EVERY_INT8, x)], y) for n in ("tflite-micro", "litert"))
    differing = np.flatnonzero(ours != table)
    assert (
        dict(zip(EVERY_INT8[differing].tolist(), ours[differing].tolist(), strict=True)) == recorded
    )


def test_all_other_kernels_are_those_of_litert() -> None:
    differing = {
        op for op, make in tflite_micro.KERNELS.items() if make is not litert.KERNELS.get(op)
    }
    assert differing == {
        "Abs",
        "Clip",
        "Div",
        "Exp",
        "Gelu",
        "Gemm",
        "LeakyRelu",
        "MatMul",
        "Mul",
        "PRelu",
        "Relu",
        "Sigmoid",
        "SpaceToBatchND",
        "Tanh",
        "Tile",
    }


@pytest.mark.parametrize(("op", "name"), [("Exp", "EXP of int8"), ("Gelu", "GELU")])
def test_what_tflite_micro_does_not_load_is_refused(op: str, name: str) -> None:
    """Its words: *input->type != kTfLiteFloat32* for EXP, and *Didn't find op for builtin opcode 'GELU'*."""
    x, y = int8_params(0.05, 3), int8_params(0.04, -5)
    with pytest.raises(UnsupportedError, match=f"tflite-micro has no kernel of {name}"):
        run_node("tflite-micro", op, [(EVERY_INT8, x)], y)
    assert run_node("litert", op, [(EVERY_INT8, x)], y).shape == EVERY_INT8.shape
