"""Functions of one value, PRelu, Div, normalizations in whole graphs; oracles: the float model and ONNX Runtime."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from networks import QuantizedNetwork, build_network, gaussian_array, quantize_network, sqnr_db
from parts import CONV, WB

from ptq.core.ops import UNARY
from ptq.executor.executor import Executor
from ptq.model.session.session import Session

STEPS = frozenset(["Ceil", "Floor", "Round", "Sign", "ThresholdedRelu"])
"""Discontinuous: an error of half a step becomes one of the whole jump."""
POSITIVE = {"Log": "u", "Sqrt": "u", "Reciprocal": "u"}
FUNCTIONS = sorted(UNARY - STEPS - {"Clip"})
BODY = "u = Clip(c, low, high)\n" + "\n".join(
    f"y{i} = {op}({POSITIVE.get(op, 'c')}{', two' if op == 'Pow' else ''})"
    for i, op in enumerate(FUNCTIONS)
)
CONSTANTS = {"low": np.float32(0.5), "high": np.float32(8), "two": np.float32(2)}


NAMES = [f"y{i}" for i in range(len(FUNCTIONS))]


@cache
def every_function(target: str) -> QuantizedNetwork:
    model = build_network(CONV + BODY, outputs=NAMES, opset=20, **WB, **CONSTANTS)
    return quantize_network(model, target=target)


@pytest.mark.parametrize("target", ["litert", "tpu-mlir", "gemmlowp"])
def test_a_graph_of_functions_runs_in_integers_alone(target: str) -> None:
    done = every_function(target)
    assert done.plan.floats == {}
    executor = Executor(done.qdq, target)
    assert executor.islands == {}
    real = Session(done.prepared, threads=1).run(done.feeds[0], NAMES)
    got = executor.run(done.feeds[0])
    for op, name, expected in zip(FUNCTIONS, NAMES, real, strict=True):
        assert sqnr_db(expected, got[name]) > 20, op


def test_onnx_runtime_keeps_functions_without_a_kernel_in_float_and_the_executor_has_their_tables() -> (
    None
):
    done = every_function("ort")
    executor = Executor(done.qdq)
    expected = Session(done.qdq, threads=1).run(done.feeds[0], NAMES)
    got = executor.run(done.feeds[0])
    for op, name, theirs in zip(FUNCTIONS, NAMES, expected, strict=True):
        np.testing.assert_array_equal(got[name], theirs, op)


@pytest.mark.parametrize(
    "body",
    [
        "y = PRelu(c, k)",
        "y = LayerNormalization<axis=-1>(c, g, b)",
        "y = InstanceNormalization(c, g, b)",
    ],
)
def test_operators_of_several_values_run_in_integers_alone(body: str) -> None:
    more = {
        "k": gaussian_array(8, 1, 1, seed=4),
        "g": gaussian_array(8, seed=5),
    }
    done = quantize_network(build_network(CONV + body, **WB, **more), target="litert")
    executor = Executor(done.qdq, "litert")
    assert (done.plan.floats, executor.islands) == ({}, {})
    (expected,) = Session(done.prepared, threads=1).run(done.feeds[0])
    assert sqnr_db(expected, executor.run(done.feeds[0])["y"]) > 25


@pytest.mark.parametrize("target", ["gemmlowp", "litert", "litert-xnnpack"])
def test_a_division_that_loses_small_quotients_stays_float(target: str) -> None:
    body = "s = Sigmoid(c)\no = Add(s, one)\ny = Div(c, o)"
    done = quantize_network(build_network(CONV + body, one=np.float32(1), **WB), target=target)
    reason = "LiteRT's integers make the lowest or highest value of a quotient below half an LSB"
    assert done.float_reasons()["Div"] == reason


def test_a_division_by_what_comes_near_zero_stays_float() -> None:
    done = quantize_network(
        build_network(f"{CONV}e = Exp(c)\ny = Div(c, e)", **WB), target="litert"
    )
    assert done.float_reasons() == {"Div": "its divisor e came within 8 LSB of zero"}


def test_tpu_mlir_computes_a_parametric_relu_on_integers() -> None:
    slopes = np.float32([[[0.1]], [[0.2]]] * 4)
    done = quantize_network(
        build_network(f"{CONV}y = PRelu(c, k)", k=slopes, **WB), target="tpu-mlir"
    )
    x, y = (done.plan.tensors[name] for name in ("c", "y"))
    assert (x, done.plan.floats) == (y, {})  # BackwardCalibration
    (expected,) = Session(done.prepared, threads=1).run(done.feeds[0])
    assert sqnr_db(expected, Executor(done.qdq, "tpu-mlir").run(done.feeds[0])["y"]) > 25
