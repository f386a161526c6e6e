"""Oracles: ONNX Runtime's MatMulInteger, and numpy in int64."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from requantizers import keep

from ptq.core.errors import ModelError
from ptq.core.types import INT8, UINT8
from ptq.kernels.matmul import prepare_matmul_by_constant, prepare_matmul_of_activations


def runtime(b: Any, zb: Any, **inputs: Any) -> Any:
    constants = [numpy_helper.from_array(b, "b"), numpy_helper.from_array(zb, "zb")]
    values = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for name, v in inputs.items()
    ]
    result = helper.make_tensor_value_info("y", TensorProto.INT32, None)
    node = helper.make_node("MatMulInteger", ["a", "b", "za", "zb"], ["y"])
    graph = helper.make_graph([node], "one", values, [result], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, inputs)[0]


def integers(rng: np.random.Generator, dtype: type, *shape: int) -> Any:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


@settings(max_examples=60)
@given(
    st.sampled_from([((), ()), ((3,), ()), ((2, 3), (3,)), ((2, 3), (2, 3)), ((1, 2), (4, 1))]),
    st.tuples(st.integers(1, 70), st.sampled_from([1, 2, 7, 64, 300, 1300]), st.integers(1, 70)),
    st.sampled_from([0, 1, 128, 255]),
    st.integers(0, 2**32 - 1),
)
def test_products_equal_onnx_runtimes_matmulinteger(
    batches: tuple[tuple[int, ...], tuple[int, ...]],
    size: tuple[int, int, int],
    zero: int,
    seed: int,
) -> None:
    m, k, n = size
    rng = np.random.default_rng(seed)
    a, b = integers(rng, np.uint8, *batches[0], m, k), integers(rng, np.int8, *batches[1], k, n)
    zb = int(rng.integers(-128, 128))
    expected = runtime(a=a, b=b, za=np.array(zero, np.uint8), zb=np.array(zb, np.int8))
    zeros: dict[str, Any] = {
        "a_qtype": UINT8, "a_zero_point": zero, "b_qtype": INT8, "b_zero_point": zb,
    }  # fmt: skip
    np.testing.assert_array_equal(prepare_matmul_of_activations(**zeros)(a, b, keep), expected)
    np.testing.assert_array_equal(prepare_matmul_by_constant(b, None, **zeros)(a, keep), expected)


@settings(max_examples=40)
@given(st.sampled_from([(), (2,), (2, 3)]), st.integers(0, 2**32 - 1), st.booleans())
def test_zero_points_of_rows_and_columns_and_a_bias_equal_int64(
    batch: tuple[int, ...], seed: int, batched: bool
) -> None:
    rng = np.random.default_rng(seed)
    m, k, n = rng.integers(1, 60, 3).tolist()
    a = integers(rng, np.int8, *batch, m, k)
    b = integers(rng, np.uint8, *(batch if batched else ()), k, n)
    za, zb = integers(rng, np.int8, m), integers(rng, np.uint8, n)
    bias = rng.integers(-(2**31), 2**31 - 1, n).astype(np.int32)
    wide = np.matmul(a.astype(np.int64) - za[:, None], b.astype(np.int64) - zb)
    for zero, sums in (
        (za, wide),
        (int(za[0]), np.matmul(a.astype(np.int64) - int(za[0]), b.astype(np.int64) - zb)),
    ):
        zeros: dict[str, Any] = {
            "a_qtype": INT8, "a_zero_point": zero, "b_qtype": UINT8, "b_zero_point": zb,
        }  # fmt: skip
        np.testing.assert_array_equal(prepare_matmul_of_activations(**zeros)(a, b, keep), sums)
        np.testing.assert_array_equal(prepare_matmul_by_constant(b, None, **zeros)(a, keep), sums)
        np.testing.assert_array_equal(
            prepare_matmul_by_constant(b, bias, **zeros)(a, keep), (sums + bias).astype(np.int32)
        )


@pytest.mark.parametrize(
    ("left", "right"),
    [((5,), (5, 4)), ((3, 5), (5,)), ((5,), (5,)), ((5,), (2, 5, 4)), ((2, 3, 5), (5,))],
)
def test_vectors_are_taken_as_numpys_int64_matmul_takes_them(
    left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(1)
    a, b = integers(rng, np.uint8, *left), integers(rng, np.int8, *right)
    expected = np.matmul(a.astype(np.int64) - 9, b.astype(np.int64))
    zeros: dict[str, Any] = {
        "a_qtype": UINT8, "a_zero_point": 9, "b_qtype": INT8, "b_zero_point": 0,
    }  # fmt: skip
    for got in (
        prepare_matmul_of_activations(**zeros)(a, b, keep),
        prepare_matmul_by_constant(b, None, **zeros)(a, keep),
    ):
        assert got.shape == expected.shape
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("depth", [258, 259, 4608, 40000])
def test_extreme_values_are_summed_exactly_and_wrap_as_int32(depth: int) -> None:
    a, b = np.full((3, depth), 255, np.uint8), np.full((depth, 33), 127, np.int8)
    a[1] = 0
    b[:, 1::2] = -128
    zb = np.where(np.arange(33) % 2, 127, -128)
    zeros: dict[str, Any] = {
        "a_qtype": UINT8, "a_zero_point": 0, "b_qtype": INT8, "b_zero_point": zb,
    }  # fmt: skip
    whole = depth * 255 * 255
    row = np.where(np.arange(33) % 2, -whole, whole).astype(np.int64)
    expected = np.stack([row, 0 * row, row]).astype(np.int32)
    np.testing.assert_array_equal(prepare_matmul_of_activations(**zeros)(a, b, keep), expected)
    np.testing.assert_array_equal(prepare_matmul_by_constant(b, None, **zeros)(a, keep), expected)


def test_the_number_of_threads_does_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    a, b = integers(rng, np.uint8, 3, 500, 700), integers(rng, np.int8, 3, 700, 90)
    zeros: dict[str, Any] = {
        "a_qtype": UINT8, "a_zero_point": 3, "b_qtype": INT8, "b_zero_point": 0,
    }  # fmt: skip
    results = []
    monkeypatch.setattr("ptq.kernels.thread_pool.MIN_PARALLEL_NANOSECONDS", 0)
    for number in (1, 2, 5):
        monkeypatch.setattr(
            "ptq.kernels.thread_pool.get_thread_count", lambda number=number: number
        )
        results += [
            prepare_matmul_of_activations(**zeros)(a, b, keep),
            prepare_matmul_by_constant(b, None, **zeros)(a, keep),
        ]
        np.testing.assert_array_equal(
            prepare_matmul_by_constant(b[1], None, **zeros)(a[1], keep), results[0][1]
        )
    # float64 holds every sum: 700 · 255 · 128 < 2^53
    expected = np.matmul(a.astype(np.float64) - 3, b.astype(np.float64))
    for result in results:
        np.testing.assert_array_equal(result, expected)


def test_operands_that_do_not_meet_are_a_model_error() -> None:
    zeros: dict[str, Any] = {
        "a_qtype": UINT8, "a_zero_point": 3, "b_qtype": INT8, "b_zero_point": 0,
    }  # fmt: skip
    a, b = np.zeros((2, 5), np.uint8), np.zeros((6, 2), np.int8)
    with pytest.raises(ModelError, match="5 columns meet 6 rows"):
        prepare_matmul_of_activations(**zeros)(a, b, keep)
    with pytest.raises(ModelError, match="5 columns meet 6 rows"):
        prepare_matmul_by_constant(b, None, **zeros)(a, keep)


@pytest.mark.parametrize("batches", [((0,), (0,)), ((3, 1), (5,)), ((40,), (1,))])
def test_small_products_of_many_matrices_are_each_one_s(
    batches: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    rng = np.random.default_rng(0)
    a, b = integers(rng, np.uint8, *batches[0], 50, 40), integers(rng, np.int8, *batches[1], 40, 60)
    core = prepare_matmul_of_activations(
        a_qtype=UINT8, a_zero_point=9, b_qtype=INT8, b_zero_point=-3
    )
    expected = (a.astype(np.int64) - 9) @ (b.astype(np.int64) + 3)
    np.testing.assert_array_equal(core(a, b, keep), expected)
