"""Oracle: the number of rows that each large matrix multiplies, as the network is written."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from networks import build_network, gaussian_array

from ptq.model.graph import Graph
from ptq.model.session.session import Session
from ptq.model.session.single_row_weights import has_single_row_weights
from ptq.rewrite.prepare.prepare import prepare

SIDE = 4100
"""The side of a matrix of 67 MB."""


@pytest.fixture(scope="module")
def matrix() -> np.ndarray:
    return np.tile(gaussian_array(SIDE), (SIDE, 1)) / np.float32(SIDE)


def network(matrix: np.ndarray, rows: int | str) -> onnx.ModelProto:
    return build_network("y = MatMul(x, w)", {"x": (rows, SIDE)}, w=matrix)


@pytest.mark.parametrize(("rows", "single"), [(1, True), (2, False), ("n", False)])
def test_a_large_matrix_that_multiplies_one_row_counts(
    matrix: np.ndarray, rows: int | str, single: bool
) -> None:
    assert has_single_row_weights(prepare(Graph.from_proto(network(matrix, rows))).graph) == single


def test_small_matrices_do_not_count() -> None:
    small = build_network("y = MatMul(x, w)", {"x": (1, 8)}, w=gaussian_array(8, 8))
    assert not has_single_row_weights(Graph.from_proto(small))


def test_a_matrix_of_many_rows_beside_it_outweighs_it(matrix: np.ndarray) -> None:
    both = build_network(
        "a = MatMul(x, w)\nb = MatMul(z, w)\ny = Add(a, b)",
        {"x": (1, SIDE), "z": (7, SIDE)},
        w=matrix,
    )
    assert not has_single_row_weights(Graph.from_proto(both))


def test_sessions_without_the_copy_compute_the_same_within_rounding(matrix: np.ndarray) -> None:
    graph = prepare(Graph.from_proto(network(matrix, 1))).graph
    feed = {"x": gaussian_array(1, SIDE, seed=3)}
    [exact] = Session(graph, threads=1).run(feed)
    for session in (
        Session.for_calibration(graph, threads=1),
        Session.for_reference(graph, threads=1),
    ):
        np.testing.assert_allclose(session.run(feed)[0], exact, rtol=1e-4, atol=1e-6)
