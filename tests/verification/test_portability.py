"""Risks on other processors: float64 and big integers are the oracle of bounds, ONNX Runtime of unsigned weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from foreign_models import INPUT_QDQ, OUTPUT_QDQ, foreign_graph, random_integers, random_samples
from networks import build_network, gaussian_array
from old_runtime import skip_before

from ptq.api.portability import portability
from ptq.core.errors import DataError, ModelError
from ptq.data import Sample
from ptq.executor.executor import Executor
from ptq.kernels.thread_pool import get_thread_count
from ptq.model.graph import Graph
from ptq.model.session.session import Session
from ptq.rewrite.shift_to_uint8 import shift_weights_to_uint8
from ptq.verification.conversion import convert_graph
from ptq.verification.portability import NodeRisk, measure_portability
from ptq.verification.wording import describe_largest

ROWS = (5, 16)
WD = "wd = DequantizeLinear(w, w_scale, w_zero)\n"


def _matmul(w: Any, **changed: Any) -> Graph:
    return foreign_graph(INPUT_QDQ + WD + "r = MatMul(xd, wd)" + OUTPUT_QDQ, ROWS, w=w, **changed)


def _risk(graph: Graph, these: list[Sample]) -> NodeRisk:
    (risk,) = measure_portability(graph, these).nodes
    return risk


def test_headroom_is_what_the_worst_input_leaves_of_int32():
    w = np.full((16, 8), 127, np.int8)
    risk = _risk(_matmul(w, x_zero=np.uint8(0)), random_samples(ROWS))
    assert risk.bits_left == pytest.approx(31 - math.log2(16 * 255 * 127))


def test_the_bias_counts_in_the_headroom():
    bias = np.full(8, -(2**30), np.int32)
    graph = foreign_graph(
        INPUT_QDQ + WD + "bd = DequantizeLinear(b, b_scale)\nr = Gemm(xd, wd, bd)" + OUTPUT_QDQ,
        ROWS,
        w=np.full((16, 8), -127, np.int8),
        b=bias,
        b_scale=np.float32(0.03) * np.float32(0.01),
        x_zero=np.uint8(0),
    )
    risk = _risk(graph, random_samples(ROWS))
    assert risk.bits_left == pytest.approx(31 - math.log2(2**30 + 16 * 255 * 127))


def test_the_data_leave_no_less_headroom_than_the_bound():
    for seed in range(5):
        risk = _risk(_matmul(random_integers(16, 8, seed=seed)), random_samples(ROWS))
        assert risk.bits_left <= risk.bits_left_met < 31


def test_the_largest_accumulator_met_is_the_one_of_big_integers():
    w, these = random_integers(16, 8), random_samples(ROWS)
    graph = _matmul(w)
    peak = 0
    for sample in these:
        q = Executor(graph).run(sample.feed, ["xq"])["xq"].astype(object) - 120
        peak = max(peak, int(np.abs(q @ w.astype(object)).max()))
    assert _risk(graph, these).bits_left_met == pytest.approx(31 - math.log2(peak))


def test_pairs_saturate_only_where_two_weights_of_one_sign_reach_129():
    w = np.zeros((16, 8), np.int8)
    w[0:2, 0] = 64, 64  # 255 · 128 = 32640
    w[0:2, 1] = 65, 64  # 255 · 129 = 32895 > 32767
    w[1:3, 2] = 127, 127  # two different pairs
    w[4:6, 3] = 127, -127  # of two signs
    w[6:8, 4] = -65, -65
    w[8:10, 5] = 127, 127
    full = Sample("full", {"x": np.full(ROWS, 1e3, np.float32)}, ())
    found = measure_portability(_matmul(w, x_zero=np.uint8(0), y_scale=np.float32(2)), [full])
    (risk,) = found.nodes
    assert (risk.channels, risk.saturable) == (8, 3)
    # in steps of 2 / (0.03 · 0.01): 64770 gives 10 and 32767 gives 5, in 5 rows; the others change by less than one
    assert (risk.saturated, risk.largest) == (5, 5)
    assert found.saturated == (risk,)
    assert {word for text in found.remedies for word in text.split()} >= {
        "session.x64quantprecision=1",
        "reduced:",
        "u8:",
    }


def test_the_change_of_a_float_result_is_a_share_of_its_largest_value():
    w = np.zeros((16, 8), np.int8)
    w[0:2, 0] = 127, 127
    full = Sample("full", {"x": np.full(ROWS, 1e3, np.float32)}, ())
    graph = foreign_graph(INPUT_QDQ + WD + "y = MatMul(xd, wd)", ROWS, w=w, x_zero=np.uint8(0))
    (risk,) = measure_portability(graph, [full]).nodes
    assert risk.largest_share == pytest.approx(1 - 32767 / (2 * 255 * 127))
    assert describe_largest(risk) == "5e-01"


def test_weights_that_allow_saturation_may_never_meet_it():
    small = Sample("small", {"x": np.full(ROWS, -3.5, np.float32)}, ())
    found = measure_portability(_matmul(random_integers(16, 8)), [small])
    assert found.saturable
    assert found.saturated == ()


@pytest.mark.parametrize(
    "changed",
    [
        {"w": random_integers(16, 8, dtype=np.uint8), "w_zero": np.uint8(128)},
        {"w": np.clip(random_integers(16, 8), -64, 64)},
    ],
    ids=["unsigned weights", "seven-bit weights"],
)
def test_saturation_is_excluded(changed):
    found = measure_portability(_matmul(**changed), random_samples(ROWS))
    assert found.saturable == ()
    assert found.remedies == ()


def test_signed_activations_saturate_only_where_quantizers_let_them_be_moved():
    # measured on an emulated Haswell: 7 of these 40 integers differ from those with VNNI
    qdq = _matmul(random_integers(16, 8), x_zero=np.int8(-8), y_zero=np.int8(0))
    assert measure_portability(qdq, random_samples(ROWS)).saturable
    assert (
        measure_portability(convert_graph(qdq, "qoperator"), random_samples(ROWS)).saturable == ()
    )


@pytest.mark.parametrize(
    ("x", "w", "channels"), [((5, 16), (16,), 1), ((16,), (16, 8), 8)], ids=["right", "left"]
)
def test_a_product_by_a_vector_has_the_risks_of_a_matrix(x, w, channels):
    weight = np.full(w, 127, np.int8)
    nodes = INPUT_QDQ + WD + "r = MatMul(xd, wd)" + OUTPUT_QDQ
    graph = foreign_graph(nodes, x, w=weight, x_zero=np.uint8(0), y_scale=np.float32(2))
    risk = _risk(graph, [Sample("full", {"x": np.full(x, 1e3, np.float32)}, ())])
    assert (risk.channels, risk.saturable) == (channels, channels)
    assert risk.bits_left == risk.bits_left_met == pytest.approx(31 - math.log2(16 * 255 * 127))
    assert risk.saturated == risk.elements == math.prod(x) // 16 * channels


def test_depthwise_convolutions_do_not_saturate():
    nodes = INPUT_QDQ + WD + "r = Conv<group = 3>(xd, wd)" + OUTPUT_QDQ
    graph = foreign_graph(nodes, w=np.full((3, 1, 3, 3), 127, np.int8))
    assert measure_portability(graph, random_samples((1, 3, 8, 8))).saturable == ()


def test_exact_ties_are_counted():
    halves = np.zeros((16, 8), np.int8)
    halves[0] = 1
    graph = _matmul(
        halves,
        x_scale=np.float32(0.5),
        w_scale=np.float32(0.5),
        y_scale=np.float32(0.5),
        x_zero=np.uint8(128),
        y_zero=np.uint8(128),
    )
    # acc · 0.25 / 0.5 = acc / 2: a tie for every odd integer
    x = np.zeros(ROWS, np.float32)
    x[:, 0] = 0.5 * np.array([1, 2, 3, 4, 5])
    found = measure_portability(graph, [Sample("odd", {"x": x}, ())])
    assert found.ties == 3 * 8


def test_no_sample_is_an_error():
    with pytest.raises(DataError, match="no sample"):
        measure_portability(_matmul(random_integers(16, 8)), [])


LAYERS = {
    "Conv": (WD + "r = Conv(xd, wd, b)", (1, 3, 8, 8), random_integers(8, 3, 3, 3)),
    "Gemm": (WD + "r = Gemm(xd, wd, b)", ROWS, random_integers(16, 8)),
    "MatMul": (WD + "r = MatMul(xd, wd)", (2, 5, 16), random_integers(16, 8)),
}


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
@pytest.mark.parametrize("name", LAYERS)
def test_unsigned_weights_are_the_same_integers_in_onnx_runtime_and_here(name, form):
    skip_before((1, 21), "does not quantize a float bias")
    nodes, shape, w = LAYERS[name]
    graph = foreign_graph(INPUT_QDQ + nodes + OUTPUT_QDQ, shape, w=w, b=gaussian_array(8))
    if form == "qoperator":
        graph = convert_graph(graph, "qoperator")
    unsigned = shift_weights_to_uint8(graph)
    assert measure_portability(graph, random_samples(shape)).saturable
    assert measure_portability(unsigned, random_samples(shape)).saturable == ()
    sessions = [Session(g, threads=1) for g in (graph, unsigned)]
    for sample in random_samples(shape):
        before, after = (session.run(sample.feed)[0] for session in sessions)
        assert np.array_equal(before, after)
        assert np.array_equal(Executor(unsigned).run(sample.feed)["y"], before)


def test_weights_beside_activations_that_are_moved_to_uint8_are_stored_so_too():
    graph = _matmul(random_integers(16, 8), x_zero=np.int8(-8), y_zero=np.int8(0))
    unsigned = shift_weights_to_uint8(graph)
    assert measure_portability(unsigned, random_samples(ROWS)).saturable == ()
    sessions = [Session(g, threads=1) for g in (graph, unsigned)]
    for sample in random_samples(ROWS):
        before, after = (session.run(sample.feed)[0] for session in sessions)
        assert np.array_equal(before, after)


def test_weights_beside_signed_activations_stay_signed():
    graph = convert_graph(
        _matmul(random_integers(16, 8), x_zero=np.int8(-8), y_zero=np.int8(0)), "qoperator"
    )
    read = [
        value.name for node in shift_weights_to_uint8(graph).nodes for value in node.inputs if value
    ]
    assert "w" in read


def test_portability_uses_as_many_threads_as_are_given() -> None:
    graph, used = _matmul(random_integers(16, 8)), list[int]()

    def read() -> list[Any]:
        used.append(get_thread_count())
        return [np.zeros(ROWS, np.float32)]

    portability(graph, read, threads=1)
    assert {*used} == {1}


def test_a_float_model_is_refused_before_a_sample_is_read() -> None:
    model = build_network("y = Conv(x, w)", w=gaussian_array(4, 3, 1, 1))
    with pytest.raises(ModelError, match="has no integer tensor; quantize it first"):
        portability(model, lambda: pytest.fail("a sample was read"))
