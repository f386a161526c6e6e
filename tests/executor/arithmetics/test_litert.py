"""The ``litert`` arithmetic: what it refuses, and hand-derived values of its rules.

The bits of every operator are held by vectors of LiteRT's reference kernels (tests/verification/test_golden.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ptq.core.errors import UnsupportedError
from ptq.core.types import INT8, INT32, UINT8, QuantParams
from ptq.executor.arithmetics import litert
from ptq.executor.arithmetics.litert_elementwise import compute_activation_bounds
from ptq.executor.arithmetics.node_site import Site


def params(scale: float, zero_point: int = 0) -> QuantParams:
    return QuantParams(np.float32(scale), zero_point, INT8)


def int8(*values: int) -> Any:
    return np.array(values, np.int8)


def run(
    op: str, inputs: list[Any], quantized: list[Any], y: QuantParams | None, **attrs: Any
) -> Any:
    site = Site(op, attrs, tuple(quantized), (y,), (None,) * len(inputs))
    return litert.KERNELS[op](site)(inputs)


def test_requantize_rounds_a_tie_up_and_then_away_from_zero() -> None:
    # 1/2 = 2^30 · 2^-31: SRDHM(q, 2^30) = floor(q/2 + 1/2), no second rounding
    got = run("Requantize", [int8(-3, -1, 1, 3)], [params(0.5)], params(1.0))
    assert got.tolist() == [-1, 0, 1, 2]
    # 1/4: the same, then its half rounded away from zero: −3 → −1 → −1, −1 → 0 → 0
    got = run("Requantize", [int8(-6, -3, -2, 2, 3)], [params(0.25)], params(1.0))
    assert got.tolist() == [-2, -1, -1, 1, 1]


def test_gemm_differs_between_litert_and_gemmlowp_at_a_negative_tie() -> None:
    x, w = np.array([[-1]], np.int8), np.array([[1]], np.int8)
    site = Site("Gemm", {}, (params(0.5), params(1.0)), (params(1.0),), (None, w))
    assert litert.KERNELS["Gemm"](site)([x, w]).item() == -1
    assert litert.make_gemmlowp_gemm_kernel(site)([x, w]).item() == 0


def test_average_pool_rounds_raw_integers_away_from_zero() -> None:
    x = int8(-1, -2, 1, 2).reshape(1, 2, 2, 1)
    same = params(0.1, 7)
    got = run("AveragePool", [x], [same], same, kernel_shape=(1, 2), strides=(1, 2))
    assert got.ravel().tolist() == [-2, 2]


def test_global_average_pool_is_reduce_mean_over_the_spatial_axes() -> None:
    x = np.random.default_rng(0).integers(-128, 128, (2, 5, 7, 3)).astype(np.int8)
    site = [params(0.02, 3)], params(0.013, -20)
    pooled = run("GlobalAveragePool", [x], *site)
    np.testing.assert_array_equal(pooled, run("ReduceMean", [x], *site, axes=[1, 2]))


@pytest.mark.parametrize("length", [600, 5000])
def test_softmax_of_a_long_flat_row_is_the_lowest_integer(length: int) -> None:
    # from a sum of 512 on, LiteRT's reference kernel aborts; from 4096 on, the sum leaves int32
    got = run("Softmax", [np.zeros((1, length), np.int8)], [params(0.001)], params(1 / 256, -128))
    assert set(got.ravel().tolist()) == {-128}


def test_equal_takes_steps_below_its_unit_for_equal() -> None:
    assert run("Equal", [int8(0, 0), int8(1, 2)], [params(0.001)] * 2, None).tolist() == [
        True,
        False,
    ]


def test_clip_rounds_its_bounds_to_the_outputs_integers() -> None:
    x = np.arange(-128, 128).astype(np.int8)
    got = run("Clip", [x], [params(0.1)], params(0.1), min=-1.0, max=6.0)
    assert (got.min(), got.max()) == (-10, 60)


def test_fused_activation_bounds_round_half_away_from_zero() -> None:
    assert compute_activation_bounds(params(4.0, 10), -2.0, 6.0) == (9, 12)
    assert compute_activation_bounds(params(0.01, 100), 0.0, 6.0) == (100, 127)


@pytest.mark.parametrize("huge", [np.inf, float(np.finfo(np.float32).max)])
def test_bounds_beyond_the_type_are_those_of_the_type(huge: float) -> None:
    for y in (params(0.01, 100), params(1e-6, -128), params(1e6, 5)):
        assert compute_activation_bounds(y, -huge, huge) == (-128, 127)
        assert compute_activation_bounds(y, 0.0, huge) == (int(y.zero_point), 127)
        assert compute_activation_bounds(y, huge, None) == (127, 127)
        assert compute_activation_bounds(y, None, -huge) == (-128, -128)


def test_quantize_takes_ties_away_from_zero() -> None:
    x = np.array([-1.5, -0.5, 0.5, 1.5, 2.5], np.float32)
    got = litert.KERNELS["QuantizeLinear"](Site("QuantizeLinear", {}, (None,), (params(1.0),)))([x])
    assert got.tolist() == [-2, -1, 1, 2, 3]


@pytest.mark.parametrize("op", ["AveragePool", "MaxPool", "Concat", "Reshape", "Max"])
def test_an_operator_of_one_scale_refuses_two_by_name(op: str) -> None:
    attrs = {"kernel_shape": (2, 2), "axis": 0, "shape": (4,)}
    site = Site(op, attrs, (params(0.1),), (params(0.2),), (None,))
    with pytest.raises(
        UnsupportedError, match=rf"{op} in LiteRT needs .* one scale and zero point"
    ):
        litert.KERNELS[op](site)


def test_concat_refuses_one_input_of_another_scale() -> None:
    site = Site("Concat", {"axis": 0}, (params(0.1), params(0.1, 1)), (params(0.1),), (None, None))
    with pytest.raises(UnsupportedError, match="zero point 1"):
        litert.KERNELS["Concat"](site)


@pytest.mark.parametrize("op", ["Sigmoid", "Tanh", "Softmax", "LogSoftmax", "LpNormalization"])
def test_an_output_whose_scale_the_specification_fixes_must_have_it(op: str) -> None:
    with pytest.raises(UnsupportedError, match=f"{op} in LiteRT needs an output of scale"):
        litert.KERNELS[op](Site(op, {}, (params(0.1),), (params(0.1),), (None,)))


@pytest.mark.parametrize(
    ("op", "attrs", "what"),
    [
        ("Gemm", {"alpha": 0.5}, "alpha"),
        ("Gemm", {"beta": 0.5}, "beta"),
        (
            "AveragePool",
            {"kernel_shape": (2, 2), "pads": (1, 0, 0, 0), "count_include_pad": 1},
            "padding",
        ),
    ],
)
def test_an_attribute_that_litert_has_not_is_refused(
    op: str, attrs: dict[str, Any], what: str
) -> None:
    w, c = np.ones((1, 1), np.int8), np.ones(1, np.int32)
    bias = QuantParams(np.float32(0.01), 0, INT32)
    same = params(0.1)
    with pytest.raises(UnsupportedError, match=what):
        litert.KERNELS[op](Site(op, attrs, (same, same, bias), (same,), (None, w, c)))


def test_a_weight_that_arrives_at_run_time_is_refused() -> None:
    same = params(0.1)
    with pytest.raises(UnsupportedError, match="Conv needs a constant weight"):
        litert.KERNELS["Conv"](Site("Conv", {}, (same, same), (same,), (None, None)))


def test_a_16_bit_input_is_refused_by_its_type() -> None:
    wide = QuantParams(np.float32(0.1), 0, INT32)
    with pytest.raises(UnsupportedError, match="input 0 of Relu is int32"):
        litert.KERNELS["Relu"](Site("Relu", {}, (wide,), (params(0.1),), (None,)))


def test_unsigned_integers_follow_the_same_rule_as_signed_ones() -> None:
    a, b = np.random.default_rng(1).integers(-128, 128, (2, 500)).astype(np.int8)
    signed = [params(0.02, 3), params(0.05, -8), params(0.06, 11)]
    unsigned = [QuantParams(p.scale, p.zero_point + 128, UINT8) for p in signed]
    for op in ("Add", "Sub", "Mul"):
        expected = run(op, [a, b], signed[:2], signed[2]).astype(int) + 128
        shifted = [(v.astype(int) + 128).astype(np.uint8) for v in (a, b)]
        np.testing.assert_array_equal(run(op, shifted, unsigned[:2], unsigned[2]), expected)


def test_a_comparison_that_depends_on_shapes_is_refused() -> None:
    with pytest.raises(
        UnsupportedError, match=r"Less in LiteRT depends on its shapes .* 6\.55e\+04"
    ):
        run("Less", [int8(1), int8(1)], [params(2.0**16), params(1.5)], None)
