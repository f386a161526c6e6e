"""Conv, ConvTranspose, Gemm and MatMul: operands that they refuse, and shapes that they accept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from ptq.core.errors import UnsupportedError
from ptq.core.types import INT8, INT32, UINT8, QType, QuantParams
from ptq.executor.arithmetics import fixed_point, gemmlowp, litert, ort, ort_avx2
from ptq.executor.arithmetics.node_site import Kernel, KernelMaker, Site

X, Y = QuantParams(np.float32(0.1), 3, INT8), QuantParams(np.float32(0.4), -2, INT8)
BIAS = QuantParams(np.float32(0.01), 0, INT32)
ARITHMETICS = pytest.mark.parametrize(
    "kernels", [ort.KERNELS, litert.KERNELS], ids=["ort", "litert"]
)


def scales(count: int, axis: int) -> QuantParams:
    values = np.linspace(0.1, 0.2, count, dtype=np.float32)
    return QuantParams(values, np.zeros(count, np.int64), INT8, axis)


def site(op: str, w: Any, wp: QuantParams, c: Any = None, **attrs: Any) -> Site:
    return Site(
        op, attrs, (X, wp, BIAS), (Y,), (None, w, np.zeros(1, np.int32) if c is None else c)
    )


@ARITHMETICS
@pytest.mark.parametrize("turned", [0, 1])
def test_a_weight_with_a_scale_a_row_is_refused(
    kernels: Mapping[str, KernelMaker], turned: int
) -> None:
    w = np.ones((4, 4), np.int8)
    kernels["Gemm"](site("Gemm", w, scales(4, 1 - turned), transB=turned))
    with pytest.raises(UnsupportedError, match="scale for each row"):
        kernels["Gemm"](site("Gemm", w, scales(4, turned), transB=turned))


@ARITHMETICS
def test_a_convolution_with_too_few_scales_is_refused(kernels: Mapping[str, KernelMaker]) -> None:
    with pytest.raises(UnsupportedError, match="3 scales for 4 output channels"):
        kernels["Conv"](site("Conv", np.ones((4, 1, 1, 2), np.int8), scales(3, 0)))


@ARITHMETICS
@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("shape", [(3,), (0,), (1, 4)])
def test_a_bias_of_other_channels_is_refused(
    kernels: Mapping[str, KernelMaker], op: str, shape: tuple[int, ...]
) -> None:
    if op in kernels:
        w, c = np.ones((4, 1, 1, 2), np.int8), np.zeros(shape, np.int32)
        with pytest.raises(UnsupportedError, match="not one value for each of 4 channels"):
            kernels[op](site(op, w, scales(4, 0), c))


@ARITHMETICS
@pytest.mark.parametrize("op", ["Conv", "Gemm"])
def test_a_bias_that_arrives_at_run_time_is_refused(
    kernels: Mapping[str, KernelMaker], op: str
) -> None:
    w = np.ones((4, 1, 1, 2) if op == "Conv" else (2, 4), np.int8)
    with pytest.raises(UnsupportedError, match="constant bias"):
        kernels[op](Site(op, {}, (X, X, BIAS), (Y,), (None, w, None)))


@pytest.mark.parametrize(
    "kernels",
    [ort.KERNELS, litert.KERNELS, ort_avx2.KERNELS, gemmlowp.KERNELS, fixed_point.KERNELS],
    ids=["ort", "litert", "ort-avx2", "gemmlowp", "fixed-point"],
)
@pytest.mark.parametrize("x_type", [INT8, UINT8])  # ort-avx2 has its own sums for uint8 alone
def test_gemm_adds_a_c_of_one_row_and_refuses_one_of_a_column(
    kernels: Mapping[str, KernelMaker], x_type: QType
) -> None:
    """A C of shape (3, 1) has as many values as there are columns, but ONNX adds one to each row."""
    w, c = np.ones((2, 3), np.int8), np.array([10, -700, 2000], np.int32)
    x = np.array([[3, 3], [40, 9], [0, 1]], x_type.dtype)

    def gemm(c: Any) -> Kernel:
        inputs = QuantParams(np.float32(0.125), 3, x_type), X, BIAS
        return kernels["Gemm"](Site("Gemm", {}, inputs, (Y,), (None, w, c)))

    outputs = [gemm(shaped)([x]) for shaped in (c, c[None])]
    np.testing.assert_array_equal(*outputs)
    assert len(set(outputs[0][0].tolist())) == 3
    with pytest.raises(UnsupportedError, match=r"shape \[3, 1\], not one value for each of 3"):
        gemm(c[:, None])


@ARITHMETICS
def test_a_single_scale_along_an_axis_is_a_scale_of_the_tensor(
    kernels: Mapping[str, KernelMaker],
) -> None:
    w = np.random.default_rng(0).integers(-64, 64, (5, 3, 3, 2)).astype(np.int8)
    x = np.random.default_rng(1).integers(-128, 128, (1, 6, 6, 2)).astype(np.int8)
    one = QuantParams(np.array([0.1], np.float32), np.zeros(1, np.int64), INT8, 0)
    whole = QuantParams(np.float32(0.1), 0, INT8)
    c = np.arange(5, dtype=np.int32)
    outputs = [kernels["Conv"](site("Conv", w, p, c))([x]) for p in (one, whole)]
    np.testing.assert_array_equal(*outputs)
