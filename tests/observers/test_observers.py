"""What every observer of the registry promises, whatever the data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ptq.core.errors import StatsError
from ptq.core.types import INT8, UINT8, FloatArray, QType, Range
from ptq.observers import OBSERVERS
from ptq.observers.qparams import compute_asymmetric_qparams, compute_symmetric_qparams
from ptq.observers.stats import TensorStats

every_observer = pytest.mark.parametrize("name", sorted(OBSERVERS))
every_scale = pytest.mark.parametrize("mirrored", [False, True], ids=["asymmetric", "symmetric"])

FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)
VALUES = hnp.arrays(np.float32, st.integers(1, 50), elements=FINITE)
SMOOTH = st.builds(
    lambda seed, scale, shift: np.float32(np.random.default_rng(seed).normal(shift, scale, 2000)),
    st.integers(0, 3),
    st.sampled_from([1e-41, 1e-20, 1.0, 1e37]),
    st.sampled_from([0.0, 5.0, -1e30]),
)


def stats_of(x: FloatArray) -> TensorStats:
    stats = TensorStats()
    stats.update(x)
    return stats


def test_the_registry_names_the_documented_methods() -> None:
    assert set(OBSERVERS) == {"minmax", "percentile", "kl", "mse"}


@every_scale
@every_observer
@given(x=st.one_of(VALUES, SMOOTH), qtype=st.sampled_from([INT8, UINT8]))
def test_a_range_contains_zero_and_lies_inside_the_extremes(
    name: str, mirrored: bool, x: FloatArray, qtype: QType
) -> None:
    span = OBSERVERS[name](stats_of(x), qtype, symmetric=mirrored)
    assert min(float(x.min()), 0) <= span.lo <= 0 <= span.hi <= max(float(x.max()), 0)
    convert = compute_symmetric_qparams if mirrored else compute_asymmetric_qparams
    assert np.all(np.isfinite(convert(span, qtype).dequantize(np.array([qtype.lo, qtype.hi]))))


@every_scale
@every_observer
def test_zeros_give_the_range_of_zero(name: str, mirrored: bool) -> None:
    stats = stats_of(np.zeros(100, np.float32))
    assert OBSERVERS[name](stats, INT8, symmetric=mirrored) == Range(0.0, 0.0)


@every_scale
@every_observer
@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize("value", [3.7, -3.7, 1e-30, 3e38])
def test_a_constant_gives_the_range_up_to_it(
    name: str, mirrored: bool, value: float, size: int
) -> None:
    x = np.full(size, value, np.float32)
    span = OBSERVERS[name](stats_of(x), INT8, symmetric=mirrored)
    end = span.hi if value > 0 else span.lo
    assert end == pytest.approx(value, rel=1 / 127)  # -128 steps of T / 127 reach past T
    assert (span.lo if value > 0 else span.hi) == 0


@every_observer
def test_values_of_one_sign_give_a_range_on_that_side(name: str) -> None:
    x = np.abs(np.random.default_rng(0).normal(size=20_000)).astype(np.float32)
    up = OBSERVERS[name](stats_of(x), UINT8, symmetric=False)
    down = OBSERVERS[name](stats_of(-x), UINT8, symmetric=False)
    assert (up.lo, down.hi) == (0, 0)
    assert up.hi == pytest.approx(-down.lo, rel=0.02)
    assert up.hi > 2.5


@every_scale
@every_observer
def test_the_order_of_the_values_does_not_matter(name: str, mirrored: bool) -> None:
    x = np.random.default_rng(0).standard_t(3, 30_000).astype(np.float32)
    parts = TensorStats()
    for part in np.array_split(np.sort(x), 11):
        parts.update(part)
    expected = OBSERVERS[name](stats_of(x), INT8, symmetric=mirrored)
    assert OBSERVERS[name](parts, INT8, symmetric=mirrored) == expected


@every_observer
def test_nothing_seen_is_an_error(name: str) -> None:
    for x in ([], [np.nan, np.inf]):
        with pytest.raises(StatsError, match="no finite value"):
            OBSERVERS[name](stats_of(np.array(x, np.float32)), INT8, symmetric=False)


@every_observer
def test_a_range_is_computed_once_until_values_are_added(name: str) -> None:
    stats = TensorStats()
    stats.update(np.linspace(-1, 1, 2000, dtype=np.float32))
    first = OBSERVERS[name](stats, INT8, symmetric=False)
    assert OBSERVERS[name](stats, INT8, symmetric=False) is first
    stats.update(np.linspace(-9, 9, 2000, dtype=np.float32))
    assert OBSERVERS[name](stats, INT8, symmetric=False).hi > first.hi
