"""The ``ort-avx2`` arithmetic against ONNX Runtime 1.31.1's bytes on an emulated Haswell (AVX2, no VNNI).

The expected outputs were recorded there, from one-node models with the operands that the ramps below give. On this
machine ONNX Runtime runs live where the products cannot saturate.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sites import int8_params, run_node, uint8_params

Array = Any


def ramp(shape: tuple[int, ...], step: int, start: int, low: int, count: int, dtype: Any) -> Array:
    """Integers that run through [low, low + count) in steps."""
    ramped = (np.arange(np.prod(shape)) * step + start) % count + low
    return ramped.astype(dtype).reshape(shape)


X, W = uint8_params(0.02, 3), int8_params(0.003)
A = ramp((3, 5), 61, 200, 128, 128, np.uint8)
B = ramp((5, 4), 45, 29, -128, 64, np.int8)


def conv(name: str, x: Array, w: Array, group: int = 1) -> Array:
    last = [np.ascontiguousarray(np.moveaxis(v, 1, -1)) for v in (x, w)]
    operands = [(last[0], X), (last[1], W)]
    out = run_node(name, "Conv", operands, uint8_params(0.08, 20), constants=[1], group=group)
    return np.moveaxis(out, -1, 1)


def test_pairs_of_products_saturate_in_a_convolution() -> None:
    """The pairs are neighbours in the order kernel row, kernel column, channel."""
    x = ramp((1, 3, 3, 4), 37, 11, 128, 128, np.uint8)
    w = ramp((2, 3, 2, 2), 53, 7, 64, 64, np.int8)
    recorded = [[[159, 163, 162], [161, 159, 162]], [[156, 161, 161], [159, 159, 159]]]
    assert conv("ort-avx2", x, w)[0].tolist() == recorded
    exact = [[[165, 183, 189], [175, 191, 184]], [[159, 176, 182], [168, 184, 177]]]
    assert conv("ort", x, w)[0].tolist() == exact


@pytest.mark.parametrize(
    ("channels", "recorded"), [(2, [[[76, 77]], [[78, 68]]]), (1, [[[76, 77]]])]
)
def test_a_convolution_of_one_channel_a_group_sums_exactly(channels: int, recorded: Array) -> None:
    x = ramp((1, 2, 2, 3), 37, 11, 128, 128, np.uint8)[:, :channels]
    w = ramp((channels, 1, 2, 2), 53, 7, 64, 64, np.int8)
    assert conv("ort-avx2", x, w, group=channels)[0].tolist() == recorded


@pytest.mark.parametrize(
    ("zero_point", "recorded"),
    [
        (0, [[154, 150, 154, 157], [150, 144, 139, 152], [157, 154, 151, 159]]),
        (-7, [[162, 158, 162, 165], [159, 153, 148, 161], [165, 161, 159, 167]]),
    ],
)
def test_pairs_saturate_in_matmul_before_any_zero_point(zero_point: int, recorded: Array) -> None:
    operands = [(A, X), (B, int8_params(0.003, zero_point))]
    out = run_node("ort-avx2", "MatMul", operands, uint8_params(0.05, 250), constants=[1])
    assert out.tolist() == recorded


@pytest.mark.parametrize(
    ("a", "b", "recorded"),
    [(A, B[:, 0], [154, 150, 157]), (A[1], B, [150, 144, 139, 152]), (A[1], B[:, 2], 139)],
    ids=["matrix by vector", "vector by matrix", "vector by vector"],
)
def test_a_vector_is_one_row_or_one_column(a: Array, b: Array, recorded: Array) -> None:
    """Recorded with ONNX Runtime 1.32.0."""
    operands = [(a, X), (b, W)]
    out = run_node("ort-avx2", "MatMul", operands, uint8_params(0.05, 250), constants=[1])
    assert out.tolist() == recorded


def test_pairs_saturate_in_gemm() -> None:
    c = np.array([100, -200, 300, -400], np.int32)
    operands = [(A, X), (B, W), (c, None)]
    out = run_node(
        "ort-avx2", "Gemm", operands, uint8_params(0.05, 250), constants=[1, 2], alpha=0.5
    )
    recorded = [[202, 200, 202, 203], [200, 197, 195, 201], [204, 202, 201, 204]]
    assert out.tolist() == recorded


def test_a_batch_of_activations_is_a_batch_of_products() -> None:
    batch = np.stack([B, -1 - B])
    operands = [(np.stack([A, A]), X), (batch, W)]
    out = run_node("ort-avx2", "MatMul", operands, uint8_params(0.3, 130))
    for one, b in zip(out, batch, strict=True):
        alone = run_node(
            "ort-avx2", "MatMul", [(A, X), (b, W)], uint8_params(0.3, 130), constants=[1]
        )
        np.testing.assert_array_equal(one, alone)


@pytest.mark.parametrize(
    ("x", "w"),
    [(int8_params(0.02, 3), W), (X, uint8_params(0.003, 5)), (X, int8_params(0.003))],
    ids=["s8s8", "u8u8", "small"],
)
def test_without_saturation_it_is_the_ort_arithmetic(x: Any, w: Any) -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(x.qtype.lo, x.qtype.hi + 1, (7, 90)).astype(x.qtype.dtype)
    wide = w.qtype.lo // 2, w.qtype.hi // 2 + 1  # int8 within ±64 cannot saturate
    b = rng.integers(*wide, (90, 6)).astype(w.qtype.dtype)
    outputs = [
        run_node(
            name,
            "MatMul",
            [(a, x), (b, w)],
            x if x.qtype.signed else uint8_params(0.5, 9),
            constants=[1],
        )
        for name in ("ort", "ort-avx2")
    ]
    np.testing.assert_array_equal(*outputs)
