"""Oracles: sums in int64, and the types that a requantizer is promised."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ptq.core.types import UINT8
from ptq.kernels import exact_blas
from ptq.kernels.accumulate import OutputStage
from ptq.kernels.conv import prepare_convolution
from ptq.kernels.conv_transpose import prepare_transposed_convolution
from ptq.kernels.requantizer import Channels


class Witness:
    """The identity Finish, which notes in what type each channel came."""

    def __init__(self) -> None:
        self.types: dict[int, str] = {}

    def __call__(self, acc: Any, channels: Channels) -> Any:
        for channel in np.arange(2**12)[channels]:
            # what is finished last is what stays
            self.types[int(channel)] = acc.dtype.name
        return acc.astype(np.int32)


def large_biases(outputs: int) -> np.ndarray:
    bias = np.arange(outputs, dtype=np.int32) - 3
    bias[[1, outputs - 2]] = [2**31 - 1, -(2**31) + 7]
    return bias


@pytest.mark.parametrize(
    ("group", "size", "pads"), [(1, 1, 0), (1, 3, 1), (16, 3, 1), (2, 3, 0), (16, 5, 2)]
)
def test_only_the_channels_of_a_large_bias_are_summed_in_int32(
    group: int, size: int, pads: int
) -> None:
    rng = np.random.default_rng(group + size)
    x = rng.integers(0, 256, (2, 9, 8, 16)).astype(np.uint8)
    w = rng.integers(-127, 128, (32, size, size, 16 // group)).astype(np.int8)
    bias, witness = large_biases(32), Witness()
    attributes: dict[str, Any] = {"x_qtype": UINT8, "x_zero_point": 77, "group": group}
    attributes["pads"] = [pads] * 4
    got = prepare_convolution(w, bias, **attributes)(x, witness)
    products = prepare_convolution(w, None, **attributes)(x, Witness())
    np.testing.assert_array_equal(got, (products.astype(np.int64) + bias).astype(np.int32))
    in_int32 = {channel for channel, name in witness.types.items() if name == "int32"}
    assert in_int32 == {1, 30}


def test_a_transposed_convolution_adds_large_biases_in_int32_too() -> None:
    rng = np.random.default_rng(4)
    x = rng.integers(0, 256, (1, 5, 5, 6)).astype(np.uint8)
    w = rng.integers(-127, 128, (24, 3, 3, 6)).astype(np.int8)
    bias, witness = large_biases(24), Witness()
    attributes: dict[str, Any] = {"x_qtype": UINT8, "x_zero_point": 9, "strides": [2, 2]}
    got = prepare_transposed_convolution(w, bias, **attributes)(x, witness)
    products = prepare_transposed_convolution(w, None, **attributes)(x, Witness())
    np.testing.assert_array_equal(got, (products.astype(np.int64) + bias).astype(np.int32))
    assert sorted(c for c, name in witness.types.items() if name == "int32") == [1, 22]


@pytest.mark.parametrize("over", [0, 1])
def test_a_total_of_2_24_is_still_exact_and_one_more_is_not(over: int) -> None:
    w = np.ones((4, 8), np.int64)
    bias = np.zeros(8, np.int32)
    bias[5] = 2**24 - 4 * 255 + over
    plan = exact_blas.plan_accumulation(w, bias, np.dtype(np.uint8), 0)
    assert plan.exact
    assert plan.inexact_channels.tolist() == ([5] if over else [])
    acc = np.full((3, 8), 4 * 255, np.float32)
    totals = OutputStage(plan).apply(acc, lambda acc, channels: acc.astype(np.int32))
    np.testing.assert_array_equal(totals, np.broadcast_to(4 * 255 + bias, (3, 8)))


def test_where_most_biases_are_large_all_channels_are_summed_in_int32() -> None:
    plan = exact_blas.plan_accumulation(
        np.ones((4, 8), np.int64), np.full(8, 2**30, np.int32), np.dtype(np.uint8), 0
    )
    assert not plan.exact
    assert plan.inexact_channels.size == 0
    assert OutputStage(plan).dtype == np.int32


def scaling(factor: float, noted: list[str]) -> Any:
    """A Finish that rescales to uint8, and notes in what types accumulators come."""

    def requantize(acc: Any, channels: Channels) -> Any:
        noted.append(acc.dtype.name)
        scaled = np.rint(acc.astype(np.float32) * np.float32(factor))
        return np.clip(scaled, 0, 255).astype(np.uint8)

    return requantize


@pytest.mark.parametrize(
    ("large", "factor", "apart"),
    [
        (2**30 + 1, 1e-7, False),  # 107, whatever comes in
        (2**24 + 1, 200.5 / (2**24 + 300), True),  # 200 or 201
    ],
)
def test_a_large_bias_stays_in_float32_where_the_output_is_one_constant(
    large: int, factor: float, apart: bool
) -> None:
    bias = np.array([7, large] + [0] * 14, np.int32)
    plan = exact_blas.plan_accumulation(np.ones((4, 16), np.int64), bias, np.dtype(np.uint8), 0)
    assert plan.inexact_channels.tolist() == [1]
    totals, noted = OutputStage(plan), []
    acc = np.arange(4 * 255 + 1, dtype=np.float32)[:, None] * np.ones(16, np.float32)
    expected = scaling(factor, [])((acc.astype(np.int64) + bias).astype(np.int32), slice(None))
    totals.apply(acc.copy(), requantize := scaling(factor, noted))
    noted.clear()
    np.testing.assert_array_equal(totals.apply(acc, requantize), expected)
    assert (len(np.unique(expected[:, 1])) > 1) is apart
    assert noted == (["float32", "int32"] if apart else ["float32"])
