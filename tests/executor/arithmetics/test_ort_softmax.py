"""Softmax of the ``ort`` arithmetic against ONNX Runtime, which runs the node live."""

from __future__ import annotations

import numpy as np
import pytest
from qlinear import (
    RandomOperands,
    assert_same_integers,
    onnxruntime_output,
    qparam_inputs,
    quantized_inputs,
)

from ptq.core.types import INT8, UINT8, QuantParams
from ptq.executor.arithmetics import get_kernels
from ptq.executor.arithmetics.node_site import Site

KERNELS = get_kernels("ort")  # the installed version's


@pytest.fixture(params=range(24))
def cases(request: pytest.FixtureRequest) -> RandomOperands:
    return RandomOperands(request.param)


@pytest.mark.parametrize("length", [2, 3, 10, 37, 1000])
def test_softmax_is_qlinear_softmax(cases: RandomOperands, length: int) -> None:
    x, xp = cases.values(6, length), cases.params()
    scale = np.float32(1 / 256) if cases.rng.integers(2) else cases.scale(0.002, 0.02)
    yp = cases.params(scale)
    arrays = {**quantized_inputs("x", x, xp), **qparam_inputs("y", yp)}
    attrs = {"axis": -1, "opset": 13}
    theirs = onnxruntime_output(
        "QLinearSoftmax", "com.microsoft", list(arrays), arrays, ["x"], **attrs
    )
    kernel = KERNELS["Softmax"](Site("Softmax", {"axis": -1}, (xp,), (yp,), (None,)))
    assert_same_integers(kernel([x]), theirs)


def softmax_of_both(x: np.ndarray, xp: QuantParams, yp: QuantParams, axis: int = -1) -> None:
    arrays = {**quantized_inputs("x", x, xp), **qparam_inputs("y", yp)}
    attrs = {"axis": axis, "opset": 13}
    theirs = onnxruntime_output(
        "QLinearSoftmax", "com.microsoft", list(arrays), arrays, ["x"], **attrs
    )
    kernel = KERNELS["Softmax"](Site("Softmax", {"axis": axis}, (xp,), (yp,), (None,)))
    assert_same_integers(kernel([x]), theirs)


@pytest.mark.parametrize("length", [2, 7, 16, 100, 1000])
@pytest.mark.parametrize("seed", range(12))
def test_softmax_is_exact_where_outputs_are_large_fractions_of_a_step(
    seed: int, length: int
) -> None:
    # An output scale near 1/(60 D) makes typical outputs large, and the last bits of Σ and e visible.
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 256, (20000 // length, length)).astype(np.uint8)
    xp = QuantParams(np.float32(np.exp(rng.uniform(-7, -2.5))), 0, UINT8)
    softmax_of_both(x, xp, QuantParams(np.float32(1 / (rng.uniform(20, 100) * length)), 0, UINT8))


@pytest.mark.parametrize("zero_point", [-128, -1, 0, 127])
def test_softmax_overflows_int8_as_onnxruntime_does(zero_point: int) -> None:
    x = np.random.default_rng(0).integers(-128, 128, (20, 2)).astype(np.int8)
    xp = QuantParams(np.float32(0.02), 0, INT8)
    softmax_of_both(x, xp, QuantParams(np.float32(0.0021), zero_point, INT8))


@pytest.mark.parametrize("zero_point", [0, 204])
def test_softmax_overflows_uint8_as_onnxruntime_does(zero_point: int) -> None:
    x = np.random.default_rng(0).integers(0, 256, (20, 2)).astype(np.uint8)
    xp = QuantParams(np.float32(0.02), 0, UINT8)
    softmax_of_both(x, xp, QuantParams(np.float32(0.0021), zero_point, UINT8))


def test_softmax_along_another_axis_is_onnxruntimes() -> None:
    x = np.random.default_rng(0).integers(0, 256, (3, 9, 4)).astype(np.uint8)
    params = QuantParams(np.float32(0.05), 7, UINT8)
    softmax_of_both(x, params, QuantParams(np.float32(1 / 256), 0, UINT8), axis=1)
