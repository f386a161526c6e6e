"""int8 activations between quantizers: ONNX Runtime, which shifts them to uint8 on x86, is the oracle."""

from __future__ import annotations

import platform

import numpy as np
import pytest
from foreign_models import INPUT_QDQ, OUTPUT_QDQ, foreign_graph, random_integers

from ptq.executor.executor import Executor
from ptq.model.session.session import Session
from ptq.verification.conversion import convert_graph

x86 = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="elsewhere int8 stays int8"
)
ALL = (1, 1, 16, 16)
RATIOS = [(7, 12, 21), (3, 29, 33), (18, 5, 24), (31, 37, 68)]


@x86
@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("op", ["Add", "Mul"])
def test_sums_and_products_of_all_pairs_tie_as_in_onnx_runtime(op, ratio):
    # scales in small ratios bring results so close to ties that where the zero point stands shows
    first, second, result = (np.float32(0.01) * np.float32(k) for k in ratio)
    graph = foreign_graph(
        INPUT_QDQ + "t = Transpose(x)\nwq = QuantizeLinear(t, w_scale, w_zero)\n"
        f"wd = DequantizeLinear(wq, w_scale, w_zero)\nr = {op}(xd, wd)" + OUTPUT_QDQ,
        (256, 1),
        x_scale=first,
        w_scale=second,
        y_scale=result if op == "Add" else first * second * np.float32(99.5),
        x_zero=np.int8(-87),
        w_zero=np.int8(101),
        y_zero=np.int8(-5),
    )
    feed = {"x": np.linspace(-60, 60, 256, dtype=np.float32)[:, None] * (first + second)}
    expected = Session(graph, threads=1).run(feed)[0]
    assert np.array_equal(Executor(graph).run(feed)["y"], expected)


@x86
@pytest.mark.parametrize("zero", [-128, -37, 0, 77, 127])
def test_averages_tie_as_in_onnx_runtime(zero):
    graph = foreign_graph(
        INPUT_QDQ + "r = AveragePool<kernel_shape = [3, 3]>(xd)" + OUTPUT_QDQ,
        (1, 3, 16, 16),
        x_scale=np.float32(0.05),
        y_scale=np.float32(0.025),
        x_zero=np.int8(3),
        y_zero=np.int8(zero),
    )
    q = random_integers(1, 3, 16, 16).astype(np.float32) // 3
    feed = {"x": (q - np.float32(3)) * np.float32(0.05)}
    expected = Session(graph, threads=1).run(feed)[0]
    assert np.array_equal(Executor(graph).run(feed)["y"], expected)


def test_a_tensor_shifted_to_uint8_is_fed_and_returned_in_int8():
    graph = foreign_graph(
        INPUT_QDQ + "r = Sigmoid(xd)" + OUTPUT_QDQ, ALL, x_zero=np.int8(3), y_zero=np.int8(-7)
    )
    linear = convert_graph(graph, "qoperator")
    q = np.arange(-128, 128, dtype=np.int8).reshape(ALL)
    feed = {"x": np.zeros(ALL, np.float32)}
    found, expected = (Executor(g).run(feed, ["xq", "yq"], {"xq": q}) for g in (graph, linear))
    assert found["yq"].dtype == np.int8
    assert np.array_equal(found["yq"], expected["yq"])
