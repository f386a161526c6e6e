"""Saturation found from weights: sums of pairs in big integers are the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from cases import quantized_case
from foreign_models import INPUT_QDQ, OUTPUT_QDQ, foreign_graph, random_integers
from networks import to_samples

from ptq.model.graph import Graph
from ptq.rewrite.emit.vnni_saturation import find_saturable_nodes
from ptq.rewrite.shift_to_uint8 import shift_weights_to_uint8
from ptq.verification.conversion import convert_graph
from ptq.verification.portability import measure_portability

WD = "wd = DequantizeLinear(w, w_scale, w_zero)\n"
ROWS = (5, 6)


def _matmul(w: np.ndarray, form: str, op: str = "MatMul") -> Graph:
    graph = foreign_graph(INPUT_QDQ + WD + f"r = {op}(xd, wd)" + OUTPUT_QDQ, ROWS, w=w)
    return graph if form == "qdq" else convert_graph(graph, "qoperator")


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
@pytest.mark.parametrize("op", ["MatMul", "Gemm", "Gemm<transB = 1>"])
@pytest.mark.parametrize(
    ("pair", "reached"),
    [((64, 64), False), ((65, 64), True), ((-65, -64), True), ((127, -127), False)],
)
def test_two_weights_that_are_added_reach_it_from_129_on(form, op, pair, reached):
    columns = np.zeros((6, 6), np.int8)
    columns[2:4, 1] = pair
    w = columns.T if "transB" in op else columns
    worst = max(abs(255 * sum(v for v in pair if v > 0)), abs(255 * sum(v for v in pair if v < 0)))
    assert reached == (worst > 32767)
    assert bool(find_saturable_nodes(_matmul(np.ascontiguousarray(w), form, op))) == reached


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_neighbours_of_a_convolution_are_channels_and_not_positions(form):
    for place, reached in (((0, slice(0, 2), 0, 0), True), ((0, 0, 0, slice(0, 2)), False)):
        w = np.zeros((4, 4, 3, 3), np.int8)
        w[place] = 127
        graph = foreign_graph(INPUT_QDQ + WD + "r = Conv(xd, wd)" + OUTPUT_QDQ, (1, 4, 8, 8), w=w)
        graph = graph if form == "qdq" else convert_graph(graph, "qoperator")
        assert bool(find_saturable_nodes(graph)) == reached


def test_depthwise_convolutions_and_uint8_weights_never_reach_it():
    w = np.full((3, 1, 3, 3), 127, np.int8)
    assert (
        find_saturable_nodes(
            foreign_graph(INPUT_QDQ + WD + "r = Conv<group = 3>(xd, wd)" + OUTPUT_QDQ, w=w)
        )
        == ()
    )
    assert find_saturable_nodes(shift_weights_to_uint8(_matmul(random_integers(6, 6), "qdq"))) == ()


@pytest.mark.parametrize("name", ["residual", "relu"])
def test_weights_alone_find_the_nodes_that_the_data_find(name):
    done = quantized_case(name)
    for graph in (done.qdq, done.qlinear):
        risks = measure_portability(graph, to_samples(done.feeds[:1])).saturable
        assert set(find_saturable_nodes(graph)) == {risk.node for risk in risks}
