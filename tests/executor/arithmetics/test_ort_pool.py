"""Averages of the ``ort`` arithmetic against ONNX Runtime, which runs the node live."""

from __future__ import annotations

import numpy as np
import pytest
from old_runtime import skip_before
from qlinear import (
    RandomOperands,
    assert_same_integers,
    onnxruntime_output,
    qparam_inputs,
    quantized_inputs,
)

from ptq.executor.arithmetics.node_site import Site
from ptq.executor.arithmetics.ort_pool import KERNELS


@pytest.fixture(params=range(24))
def cases(request: pytest.FixtureRequest) -> RandomOperands:
    return RandomOperands(request.param)


def test_average_pool_is_qlinear_average_pool(cases: RandomOperands) -> None:
    x, xp = cases.values(2, 3, 9, 8), cases.params()
    yp = cases.params(
        np.float32(float(xp.scale) * (1 if cases.ties else cases.rng.uniform(0.6, 1.3)))
    )
    attrs = {
        "kernel_shape": [int(v) for v in cases.rng.integers(2, 5, 2)],
        "strides": [cases.size(3), cases.size(3)],
        "pads": [int(v) for v in cases.rng.integers(0, 2, 4)],
        "count_include_pad": int(cases.rng.integers(2)),
        "ceil_mode": int(cases.rng.integers(2)),
    }
    if attrs["ceil_mode"]:
        skip_before((1, 21), "averages a last window that begins in the padding")
    arrays = {**quantized_inputs("x", x, xp), **qparam_inputs("y", yp)}
    theirs = onnxruntime_output(
        "QLinearAveragePool", "com.microsoft", list(arrays), arrays, ["x"], **attrs
    )
    kernel = KERNELS["AveragePool"](Site("AveragePool", attrs, (xp,), (yp,), (None,)))
    assert_same_integers(np.moveaxis(kernel([np.moveaxis(x, 1, -1)]), -1, 1), theirs)


@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1]])
@pytest.mark.parametrize("sizes", [(4, 2), (4, 3), (5, 2)])
def test_a_window_of_the_whole_image_is_a_global_average(
    cases: RandomOperands, sizes: tuple[int, int], pads: list[int]
) -> None:
    x, xp = cases.values(1, 40, *sizes), cases.params()
    yp = cases.params(np.float32(0.5) * xp.scale)  # half of the averages of eight are near a tie
    attrs = {"kernel_shape": [4, 2], "pads": pads}
    arrays = {**quantized_inputs("x", x, xp), **qparam_inputs("y", yp)}
    theirs = onnxruntime_output(
        "QLinearAveragePool", "com.microsoft", list(arrays), arrays, ["x"], **attrs
    )
    kernel = KERNELS["AveragePool"](Site("AveragePool", attrs, (xp,), (yp,), (None,)))
    assert_same_integers(np.moveaxis(kernel([np.moveaxis(x, 1, -1)]), -1, 1), theirs)


@pytest.mark.parametrize("size", range(6, 13))
@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_average_pool_pads_as_onnxruntime_does_where_strides_skip(size: int, auto_pad: str) -> None:
    cases = RandomOperands(size)
    x, xp, yp = cases.values(1, 2, size, 7), cases.params(), cases.params()
    attrs = {"kernel_shape": [1, 2], "strides": [4, 3], "auto_pad": auto_pad}
    arrays = {**quantized_inputs("x", x, xp), **qparam_inputs("y", yp)}
    theirs = onnxruntime_output(
        "QLinearAveragePool", "com.microsoft", list(arrays), arrays, ["x"], **attrs
    )
    kernel = KERNELS["AveragePool"](Site("AveragePool", attrs, (xp,), (yp,), (None,)))
    assert_same_integers(np.moveaxis(kernel([np.moveaxis(x, 1, -1)]), -1, 1), theirs)


def test_global_average_pool_is_its_qlinear_kernel(cases: RandomOperands) -> None:
    x, xp = cases.values(2, 5, cases.size(12), cases.size(12)), cases.params()
    yp = cases.params(
        np.float32(float(xp.scale) * (1 if cases.ties else cases.rng.uniform(0.6, 1.3)))
    )
    arrays = {**quantized_inputs("x", x, xp), **qparam_inputs("y", yp)}
    theirs = onnxruntime_output(
        "QLinearGlobalAveragePool", "com.microsoft", list(arrays), arrays, ["x"]
    )
    kernel = KERNELS["GlobalAveragePool"](Site("GlobalAveragePool", {}, (xp,), (yp,), (None,)))
    assert_same_integers(np.moveaxis(kernel([np.moveaxis(x, 1, -1)]), -1, 1), theirs)
