"""The arithmetic ``litert-xnnpack``: hand-derived values, and LiteRT's default kernels where they are installed.

The bits of every operator are held by vectors of LiteRT's default kernels (tests/verification/test_golden.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from litert_cases import CASES, feeds_of, graph_of
from qdq_builder import QdqBuilder

from ptq.core.errors import UnsupportedError
from ptq.core.types import INT8, QuantParams
from ptq.executor.arithmetics import litert, litert_xnnpack
from ptq.executor.arithmetics.node_site import Site
from ptq.executor.executor import Executor
from ptq.executor.tflite_export import encode_tflite
from ptq.model.open import open_model


def params(scale: float, zero_point: int = 0) -> QuantParams:
    return QuantParams(np.float32(scale), zero_point, INT8)


def int8(*values: int) -> Any:
    return np.array(values, np.int8)


def run(op: str, inputs: list[Any], quantized: list[Any], y: QuantParams, **attrs: Any) -> Any:
    site = Site(op, attrs, tuple(quantized), (y,), (None,) * len(inputs))
    return litert_xnnpack.KERNELS[op](site)(inputs).tolist()


def test_a_product_rounds_ties_to_even_before_the_zero_point() -> None:
    one, half = params(1.0), params(0.5)
    assert run("Mul", [int8(1, 3, -1), int8(1, 1, 1)], [half, one], params(1.0, 1)) == [1, 3, 1]


def test_a_sum_rounds_ties_up() -> None:
    half, zero = params(0.5), params(0.5)
    assert run("Add", [int8(1, -1, 3), int8(0, 0, 0)], [half, zero], params(1.0)) == [1, 0, 2]


def test_a_requantization_multiplies_by_a_factor_of_8_fractional_bits() -> None:
    # 0.3 · 256 = 76.8 becomes 77: 100 · 77/256 = 30.08, 127 · 77/256 = 38.2
    assert run("Requantize", [int8(100, 127, -100)], [params(0.3)], params(1.0)) == [30, 38, -30]


def test_a_mean_adds_the_zero_point_before_rounding() -> None:
    # 1/2 + 1 = 1.5 becomes 2; rounded first, 0.5 would become 0
    x = int8(0, 1).reshape(1, 2)
    assert run("ReduceMean", [x], [params(1.0)], params(1.0, 1), axes=[1], keepdims=0) == [2]


def test_a_softmax_rounds_halves_up() -> None:
    # exp(−ln 511) is 1/511: the shares are 255.5 and 0.5 of 256
    x = int8(0, -1).reshape(1, 2)
    y = params(1 / 256, -128)
    assert run("Softmax", [x], [params(float(np.log(511)))], y) == [[127, -127]]


def test_a_softmax_of_many_values_is_that_of_litert() -> None:
    pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")
    from ptq.model.tflite.interpreter import LitertModel

    b = QdqBuilder()
    b.output(b.requantize(b.node("Softmax", b.input(["N", 257], 0.11)), 1 / 256, -128))
    graph = b.to_graph()
    rng = np.random.default_rng(3)
    spread = rng.uniform(1, 7, (8000, 1))
    x = rng.normal(0, spread, (8000, 257)).astype(np.float32)
    [theirs] = LitertModel(encode_tflite(graph).content).run({"input0": x}).values()
    [ours] = Executor(graph, "litert-xnnpack").run({"input0": x}).values()
    np.testing.assert_array_equal(ours, theirs)
    [reference] = Executor(graph, "litert").run({"input0": x}).values()
    assert np.count_nonzero(reference != theirs) in range(1, 40)  # of two million


@pytest.mark.parametrize(
    ("op", "scales"),
    [("Mul", (1.0, 1.0, 2.0**-9)), *((op, (2.0**-12, 2.0**-12, 1.0)) for op in ("Add", "Sub"))],
)
def test_outside_xnnpacks_scales_litert_has_kernels_of_its_own(op: str, scales: Any) -> None:
    a, b, y = (params(scale) for scale in scales)
    values = [np.arange(-128, 128).astype(np.int8), np.arange(127, -129, -1).astype(np.int8)]
    site = Site(op, {}, (a, b), (y,), (None, None))
    np.testing.assert_array_equal(
        litert_xnnpack.KERNELS[op](site)(values), litert.KERNELS[op](site)(values)
    )


@pytest.mark.parametrize("case", CASES)
def test_litert_computes_the_same_with_its_default_kernels(case: str) -> None:
    pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")
    from ptq.model.tflite.interpreter import LitertModel

    graph = graph_of(case)
    feed = feeds_of(graph, 3)
    ours = Executor(graph, "litert-xnnpack").run(feed)
    theirs = LitertModel(encode_tflite(graph).content).run(feed)
    for name, array in ours.items():
        np.testing.assert_array_equal(theirs[name], array)


@pytest.mark.parametrize("is_fused", [True, False])
def test_the_bounds_of_a_clamp_are_those_of_the_kernel_that_has_it(is_fused: bool) -> None:
    # 1 / 2 is half a step: XNNPACK, which has only fused clamps, rounds it to even; LiteRT's own kernel does not
    pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")
    from ptq.model.tflite.interpreter import LitertModel

    b = QdqBuilder()
    x = b.input(["N", 4], 2.0, 0)
    y = b.requantize(b.node("MatMul", x, b.integers(np.eye(4, dtype=np.int8), scale=1.0)), 2.0, 0)
    bounds = [b.constant(np.float32(bound)) for bound in (-1, 1)]
    clamped = b.requantize(b.node("Clip", y if is_fused else x, *bounds), 2.0, 0)
    b.output(clamped)
    content = encode_tflite(graph := b.to_graph()).content
    feed = {"input0": np.array([[-8, -2, 0, 8]], np.float32)}
    [theirs] = LitertModel(content).run(feed).values()
    for read in (graph, open_model(content)):
        [ours] = Executor(read, "litert-xnnpack").run(feed).values()
        np.testing.assert_array_equal(ours, theirs)
    assert theirs.tolist() == [[0, 0, 0, 0] if is_fused else [-2, -2, 0, 2]]


def test_a_sum_that_wraps_in_16_bits_is_refused() -> None:
    y = params(1.0)
    assert run("Add", [int8(1), int8(1)], [params(255.0), params(1.0)], y) == [127]
    with pytest.raises(
        UnsupportedError, match="wraps in 16 bits if the scale of an input is 256 times"
    ):
        run("Add", [int8(1), int8(1)], [params(256.0), params(1.0)], y)
