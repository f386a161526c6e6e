"""Oracle: ONNX Runtime on the model as it was."""

from __future__ import annotations

import numpy as np
import pytest
from networks import build_network, gaussian_array, quantize_network, random_feeds, sqnr_db

from ptq.model.graph import Graph
from ptq.model.session.session import Session
from ptq.rewrite.prepare.prepare import prepare

A, B = gaussian_array(6, 5, seed=1), gaussian_array(5, 6, seed=2)
ALL = "alpha = 0.5, beta = 2.0"


@pytest.mark.parametrize(
    ("line", "shape", "bias"),
    [
        (f"y = Gemm<{ALL}>(x, w, c)", (4, 6), gaussian_array(5)),
        (f"y = Gemm<{ALL}, transA = 1>(x, w, c)", (6, 4), gaussian_array(1, 5)),
        (f"y = Gemm<{ALL}, transB = 1>(x, v, c)", (4, 6), gaussian_array(1)),
        (f"y = Gemm<{ALL}>(x, w, c)", (4, 6), gaussian_array(4, 5)),
        (f"y = Gemm<{ALL}>(x, w, c)", (4, 6), gaussian_array(4, 1)),
        ("y = Gemm(x, w, c)", (4, 6), np.float32(0.5)),
        ("y = Gemm<beta = 0.0>(x, w, c)", (4, 6), gaussian_array(5)),
    ],
)
def test_whatever_a_gemm_does_beside_its_product_is_computed_and_quantized(
    line: str, shape: tuple[int, ...], bias: np.ndarray
) -> None:
    model = build_network(line, {"x": shape}, w=A, v=B, c=bias)
    done = quantize_network(model)
    truth = Session(Graph.from_proto(model))
    for feed in random_feeds(model, 2):
        before = truth.run(feed)[0]
        np.testing.assert_allclose(
            Session(done.prepared).run(feed)[0], before, rtol=1e-5, atol=1e-5
        )
        assert sqnr_db(before, Session(done.qdq).run(feed)[0]) > 35
    assert "Gemm" not in done.float_reasons()


def test_a_gemm_of_two_computed_matrices_is_a_product_in_integers() -> None:
    line = f"y = Gemm<{ALL}, transA = 1, transB = 1>(a, b, c)"
    model = build_network(line, {"a": (6, 4), "b": (5, 6), "c": (4, 5)})
    done = quantize_network(model)
    feed = done.feeds[0]
    before = Session(Graph.from_proto(model)).run(feed)[0]
    np.testing.assert_allclose(Session(done.prepared).run(feed)[0], before, rtol=1e-5, atol=1e-5)
    assert "MatMul" not in done.float_reasons()


def test_one_weight_as_factor_and_summand_stays_right() -> None:
    square = gaussian_array(5, 5, seed=3)
    model = build_network("y = Gemm<alpha = 2.0>(x, w, w)", {"x": (5, 5)}, w=square)
    graph = prepare(Graph.from_proto(model)).graph
    x = gaussian_array(5, 5)
    np.testing.assert_allclose(Session(graph).run({"x": x})[0], 2 * x @ square + square, rtol=1e-4)
