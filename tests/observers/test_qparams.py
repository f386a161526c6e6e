"""Scales and zero points against the equations in float64, at the ends of float32 too."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptq.core.types import INT8, INT8_WEIGHT, UINT8, QType, Range
from ptq.observers.qparams import SCALE_FLOOR, compute_asymmetric_qparams, compute_symmetric_qparams

FLT_MAX = float(np.finfo(np.float32).max)
NUMBERS = st.floats(-FLT_MAX, FLT_MAX, allow_nan=False, width=32)
TYPES = st.sampled_from([INT8, UINT8, INT8_WEIGHT, QType(16, True, -32768, 32767)])


def span(a: float, b: float) -> Range:
    return Range(min(a, b), max(a, b))


@pytest.mark.parametrize("qtype", [INT8, UINT8])
def test_asymmetric_follows_the_equation(qtype: QType) -> None:
    params = compute_asymmetric_qparams(Range(-1.0, 2.0), qtype)
    assert params.scale == np.float32(3 / 255)
    assert params.zero_point == qtype.lo + 85
    assert params.scale.ndim == 0
    assert params.axis is None


def test_a_range_on_one_side_is_widened_to_zero() -> None:
    assert compute_asymmetric_qparams(Range(2.0, 6.0), UINT8) == compute_asymmetric_qparams(
        Range(0.0, 6.0), UINT8
    )
    assert compute_asymmetric_qparams(Range(-6.0, -2.0), INT8) == compute_asymmetric_qparams(
        Range(-6.0, 0.0), INT8
    )
    assert compute_asymmetric_qparams(Range(0.0, 6.0), INT8).zero_point == -128
    assert compute_asymmetric_qparams(Range(-6.0, 0.0), INT8).zero_point == 127


def test_symmetric_scales_the_larger_end_to_the_largest_integer() -> None:
    params = compute_symmetric_qparams(Range(-1.0, 2.54), INT8_WEIGHT)
    assert params.scale == np.float32(2.54 / 127)
    assert params.zero_point == 0
    assert compute_symmetric_qparams(2.54, INT8_WEIGHT) == params
    assert compute_symmetric_qparams(Range(-2.54, 0.0), UINT8).zero_point == 128


def test_each_channel_has_its_own_scale() -> None:
    ends = np.array([1.27, 0.0, 12.7])
    params = compute_symmetric_qparams(Range(-ends, ends), INT8_WEIGHT, axis=0)
    assert params.axis == 0
    np.testing.assert_array_equal(params.zero_point, 0)
    np.testing.assert_array_equal(params.scale, np.float32([0.01, 0.1, 0.1]))
    rows = compute_asymmetric_qparams(
        Range(np.array([-1.0, 0.0]), np.array([2.0, 6.0])), UINT8, axis=1
    )
    for i, row in enumerate([Range(-1.0, 2.0), Range(0.0, 6.0)]):
        assert rows.scale[i] == compute_asymmetric_qparams(row, UINT8).scale
        assert rows.zero_point[i] == compute_asymmetric_qparams(row, UINT8).zero_point


def test_a_tensor_of_zeros_has_scale_one() -> None:
    assert compute_asymmetric_qparams(Range(0.0, 0.0), UINT8).scale == 1
    np.testing.assert_array_equal(
        compute_symmetric_qparams(np.zeros(3), INT8_WEIGHT, axis=0).scale, 1
    )


@given(NUMBERS, NUMBERS, TYPES)
def test_parameters_are_finite_and_represent_zero_exactly(a: float, b: float, qtype: QType) -> None:
    for params in (
        compute_asymmetric_qparams(span(a, b), qtype),
        compute_symmetric_qparams(span(a, b), qtype),
    ):
        assert SCALE_FLOOR <= params.scale < np.inf
        integers = np.array([qtype.lo, int(params.zero_point), qtype.hi])
        with np.errstate(all="raise"):
            real = params.dequantize(integers)
        assert np.all(np.isfinite(real))
        assert real[1] == 0
        assert params.quantize(np.float32([0.0])) == params.zero_point


@given(NUMBERS, NUMBERS, TYPES)
def test_every_value_of_the_range_is_within_a_step_of_an_integer(
    a: float, b: float, qtype: QType
) -> None:
    ends = span(a / 2, b / 2)  # where the bound that keeps results finite does not act
    for params in (compute_asymmetric_qparams(ends, qtype), compute_symmetric_qparams(ends, qtype)):
        step = float(params.scale)
        low = step * (qtype.lo - int(params.zero_point))
        high = step * (qtype.hi - int(params.zero_point))
        assert low - 0.51 * step <= min(float(ends.lo), 0)
        assert max(float(ends.hi), 0) <= high + 0.51 * step


@pytest.mark.parametrize("end", [1e-45, 1e-38, 1e-30])
def test_the_product_of_two_scales_is_a_normal_float32(end: float) -> None:
    scale = compute_asymmetric_qparams(Range(0.0, end), UINT8).scale
    assert scale * scale >= np.finfo(np.float32).tiny


def test_infinite_ends_count_as_the_largest_float32() -> None:
    assert compute_asymmetric_qparams(Range(-np.inf, np.inf), INT8) == compute_asymmetric_qparams(
        Range(-FLT_MAX, FLT_MAX), INT8
    )
    assert compute_symmetric_qparams(np.inf, INT8) == compute_symmetric_qparams(FLT_MAX, INT8)
