"""The table of arithmetics, and what holds of all of them. Oracle: real numbers in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sites import int8_params, run_node, uint8_params

from ptq.core.errors import UnsupportedError, UsageError
from ptq.core.targets import TARGETS
from ptq.executor.arithmetics import (
    ALL_ARITHMETICS,
    ARITHMETICS,
    add_version,
    get_arithmetic,
    get_kernels,
)
from ptq.executor.arithmetics.ort_versions import NEWEST
from ptq.model.machine.ort_version import INSTALLED

NAMES = [row.name for row in ALL_ARITHMETICS]
# 7 bits of multiplier, or 8 of each scale, are off by up to 2^-7 of 255 steps.
LOOSE = {"tpu-mlir-8": 2.5, "fixed-point": 1.5}


def test_every_arithmetic_says_what_it_equals_and_whence_it_comes() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert all(row.reference and row.source for row in ALL_ARITHMETICS)
    assert list(ARITHMETICS) == NAMES


def test_every_target_names_an_arithmetic() -> None:
    assert {target.arithmetic for target in TARGETS.values()} <= set(NAMES)


def test_an_unknown_arithmetic_is_a_usage_error_that_lists_them() -> None:
    with pytest.raises(UsageError, match="tflite-micro"):
        get_kernels("float")


def test_a_version_of_onnx_runtime_follows_the_name() -> None:
    softmax = {name: get_arithmetic(name).kernels["Softmax"] for name in
               ("ort@1.20", "ort@1.28", "ort@1.29", "ort@1.31", "ort@1.32", "ort-avx2@1.31")}  # fmt: skip
    assert softmax["ort@1.20"] is softmax["ort@1.28"] is not softmax["ort@1.29"]
    assert softmax["ort@1.29"] is softmax["ort@1.31"] is softmax["ort-avx2@1.31"]
    assert softmax["ort@1.31"] is not softmax["ort@1.32"]
    assert get_arithmetic("ort@1.31").computes_int8_as_uint8


def test_ort_is_the_installed_version() -> None:
    name = add_version("ort")
    assert name == "ort@{}.{}".format(*min(INSTALLED, NEWEST))
    assert get_arithmetic("ort").kernels.keys() == get_arithmetic(name).kernels.keys()
    assert get_arithmetic("ort").kernels["Softmax"] is get_arithmetic(name).kernels["Softmax"]
    assert add_version("litert") == "litert"
    assert add_version("ort@1.28") == "ort@1.28"


@pytest.mark.parametrize("name", ["ort@1.19", "ort@1.99", "ort@", "ort@new", "litert@1.31"])
def test_an_unknown_version_is_a_usage_error_that_says_what_is_known(name: str) -> None:
    with pytest.raises(UsageError, match=r"from 1\.20 to 1\.32, follows ort or ort-avx2"):
        get_arithmetic(name)


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def assert_near(name: str, ours: Any, real: Any) -> None:
    assert ours.dtype == np.int8
    limit = LOOSE.get(name, 0.76)  # gemmlowp's second rounding adds up to 1/4
    assert np.abs(ours - np.clip(real, -128, 127)).max() <= limit


@pytest.mark.parametrize("group", [1, 2])
def test_conv_is_the_real_convolution_to_the_nearest(name: str, group: int) -> None:
    rng = np.random.default_rng(group)
    x = rng.integers(-128, 128, (2, 7, 6, 4)).astype(np.int8)
    w = rng.integers(-127, 128, (6, 3, 2, 4 // group)).astype(np.int8)
    b = rng.integers(-2000, 2000, 6).astype(np.int32)
    xp, yp = int8_params(0.02, -9), int8_params(0.25, 17)
    wp = int8_params(rng.uniform(0.005, 0.01, 6), 0, 0)
    attrs = {"pads": (1, 0, 2, 1), "strides": (2, 1), "dilations": (1, 2), "group": group}
    ours = run_node(name, "Conv", [(x, xp), (w, wp), (b, None)], yp, constants=[1, 2], **attrs)
    padded = np.pad(x.astype(int) + 9, ((0, 0), (1, 2), (0, 1), (0, 0)))
    each = 6 // group
    acc = np.zeros((2, 4, 5, 6)) + b
    for i, j in np.ndindex(3, 2):
        seen = padded[:, i : i + 7 : 2, 2 * j : 2 * j + 5]
        for g in range(group):
            inside = slice(g * (4 // group), (g + 1) * (4 // group))
            outside = slice(g * each, (g + 1) * each)
            acc[..., outside] += seen[..., inside] @ w[outside, i, j].T.astype(int)
    assert_near(name, ours, acc * float(xp.scale) * wp.scale / 0.25 + 17)


@pytest.mark.parametrize("turned", [0, 1])
def test_gemm_is_the_real_product_to_the_nearest(name: str, turned: int) -> None:
    rng = np.random.default_rng(turned)
    a = rng.integers(-128, 128, (5, 9)).astype(np.int8)
    b = rng.integers(-127, 128, (9, 4)).astype(np.int8)
    c = rng.integers(-2000, 2000, 4).astype(np.int32)
    ap, bp, yp = int8_params(0.02, 31), int8_params(0.01), int8_params(0.2, -17)
    given = np.ascontiguousarray(b.T) if turned else b
    ours = run_node(
        name, "Gemm", [(a, ap), (given, bp), (c, None)], yp, constants=[1, 2], transB=turned
    )
    acc = (a.astype(int) - 31) @ b.astype(int) + c
    assert_near(name, ours, acc * float(ap.scale) * float(bp.scale) / float(yp.scale) - 17)


@pytest.mark.parametrize("batch", [(), (3,)])
def test_matmul_of_activations_is_the_real_product_to_the_nearest(
    name: str, batch: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(-128, 128, (*batch, 5, 9)).astype(np.int8)
    b = rng.integers(-128, 128, (*batch, 9, 4)).astype(np.int8)
    ap, bp, yp = int8_params(0.02, 31), int8_params(0.01, -8), int8_params(0.4, -17)
    ours = run_node(name, "MatMul", [(a, ap), (b, bp)], yp)
    acc = (a.astype(int) - 31) @ (b.astype(int) + 8)
    assert_near(name, ours, acc * float(ap.scale) * float(bp.scale) / float(yp.scale) - 17)


def test_a_clamp_narrows_what_comes_out(name: str) -> None:
    x, w = np.arange(-128, 128).astype(np.int8)[:, None], np.array([[100]], np.int8)
    operands = [(x, int8_params(0.02)), (w, int8_params(0.01))]
    out = run_node(name, "Gemm", operands, int8_params(0.02), constants=[1], clamp=(-5, 60))
    assert (out.min(), out.max()) == (-5, 60)


@pytest.mark.parametrize(
    ("name", "op"),
    [*((name, "Gemm") for name in NAMES), ("gemmlowp", "Conv"), ("fixed-point", "Conv")],
)
def test_a_bias_at_run_time_is_refused_and_not_dropped(name: str, op: str) -> None:
    x = np.ones((1, 1, 1, 2) if op == "Conv" else (1, 2), np.int8)
    w = np.ones((1, 1, 1, 2) if op == "Conv" else (2, 1), np.int8)
    bias = (np.array([9], np.int32), int8_params(0.0002))
    with pytest.raises(UnsupportedError, match="constant"):
        run_node(
            name,
            op,
            [(x, int8_params(0.02)), (w, int8_params(0.01)), bias],
            int8_params(0.1),
            constants=[1],
        )


def test_moves_leave_integers_of_one_scale_alone(name: str) -> None:
    x = np.arange(-8, 8).astype(np.int8).reshape(1, 4, 4)
    params = int8_params(0.1, 5)
    out = run_node(name, "Transpose", [(x, params)], params, perm=(0, 2, 1))
    np.testing.assert_array_equal(out, x.transpose(0, 2, 1))
    padded = run_node(name, "Pad", [(x, params)], params, pads=(0, 1, 0, 0, 0, 0))
    assert (padded[:, 0] == 5).all()
    joined = run_node(name, "Concat", [(x, params), (x, params)], params, axis=0)
    np.testing.assert_array_equal(joined, np.concatenate([x, x]))


@pytest.mark.parametrize("name", ["ort", "ort-avx2", "tpu-mlir", "tpu-mlir-8", "fixed-point"])
def test_moves_between_two_scales_rescale(name: str) -> None:
    x = np.arange(-128, 128).astype(np.int8).reshape(1, 16, 16)
    xp, yp = int8_params(0.1, 5), int8_params(0.13, -20)
    out = run_node(name, "Pad", [(x, xp)], yp, pads=(0, 1, 0, 0, 0, 0))
    assert (out[:, 0] == -20).all()
    assert_near(name, out[:, 1:], (x.astype(int) - 5) * (0.1 / 0.13) - 20)
    ours = run_node(name, "Requantize", [(x, xp)], yp)
    np.testing.assert_array_equal(ours, out[:, 1:])


@pytest.mark.parametrize("name", ["litert", "tpu-mlir", "tpu-mlir-8", "fixed-point"])
@pytest.mark.parametrize(("op", "lo", "hi"), [("Relu", 0.0, 99.0), ("Clip", -1.5, 6.0)])
def test_an_activation_is_the_real_one_to_the_nearest(
    name: str, op: str, lo: float, hi: float
) -> None:
    x = np.arange(-128, 128).astype(np.int8)
    attrs = {} if op == "Relu" else {"min": lo, "max": hi}
    ours = run_node(name, op, [(x, int8_params(0.1, 5))], int8_params(0.06, -20), **attrs)
    assert_near(name, ours, np.clip((x.astype(int) - 5) * 0.1, lo, hi) / 0.06 - 20)


@pytest.mark.parametrize(
    "name", [n for n in NAMES if n != "ort-avx2"]
)  # uint8 × int8 saturates there
def test_uint8_is_the_same_arithmetic_as_int8_shifted_by_128(name: str) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 256, (5, 9), np.uint8), rng.integers(-127, 128, (9, 4)).astype(np.int8)
    unsigned = run_node(
        name,
        "MatMul",
        [(a, uint8_params(0.02, 131)), (b, int8_params(0.01))],
        uint8_params(0.2, 90),
        constants=[1],
    )
    moved = (a ^ 128).view(np.int8)
    signed = run_node(
        name,
        "MatMul",
        [(moved, int8_params(0.02, 3)), (b, int8_params(0.01))],
        int8_params(0.2, -38),
        constants=[1],
    )
    np.testing.assert_array_equal(signed.view(np.uint8) ^ 128, unsigned)
