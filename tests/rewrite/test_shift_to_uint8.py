"""int8 activations moved to uint8: ONNX Runtime computes the same reals, and the same integers 128 higher."""

from __future__ import annotations

import numpy as np
import pytest
from foreign_models import INPUT_QDQ, OUTPUT_QDQ, foreign_graph, random_integers, random_samples
from networks import gaussian_array

from ptq.model.session.session import Session
from ptq.rewrite.shift_to_uint8 import shift_pairs_to_uint8, to_int8

WD = "wd = DequantizeLinear(w, w_scale, w_zero)\n"
SIGNED = {"x_zero": np.int8(-8), "y_zero": np.int8(-20), "w": random_integers(3, 3, 3, 3)}
SHAPE = (1, 3, 8, 8)


@pytest.mark.parametrize("optimize", ["all", "none"])
def test_the_model_computes_the_same(optimize):
    graph = foreign_graph(
        INPUT_QDQ + WD + "r = Conv(xd, wd, b)" + OUTPUT_QDQ, b=gaussian_array(3), **SIGNED
    )
    moved, names = shift_pairs_to_uint8(graph)
    assert names == {"xq", "yq"}
    sessions = [Session(g, threads=1, optimize=optimize) for g in (graph, moved)]
    for sample in random_samples(SHAPE):
        before, after = (session.run(sample.feed)[0] for session in sessions)
        assert np.array_equal(before, after)


def test_its_integers_are_those_of_the_signed_model_and_128():
    graph = foreign_graph(INPUT_QDQ + WD + "r = Conv(xd, wd)" + OUTPUT_QDQ, **SIGNED)
    moved, _ = shift_pairs_to_uint8(graph)
    for each in (graph, moved):
        each.add_outputs(["xq"])
    feed = random_samples(SHAPE)[0].feed
    plain, unsigned = (Session(g, threads=1).run(feed, ["xq"])[0] for g in (graph, moved))
    assert unsigned.dtype == np.uint8
    assert np.array_equal(to_int8(unsigned), plain)


def test_a_tensor_with_two_readers_or_an_output_of_the_model_stays():
    residual = foreign_graph(
        INPUT_QDQ + WD + "c = Conv<pads = [1, 1, 1, 1]>(xd, wd)\nr = Add(c, xd)" + OUTPUT_QDQ,
        **SIGNED,
    )
    assert shift_pairs_to_uint8(residual)[1] == {"yq"}
    shown = foreign_graph(INPUT_QDQ + WD + "r = Conv(xd, wd)" + OUTPUT_QDQ, **SIGNED)
    shown.add_outputs(["xq", "yq"])
    assert shift_pairs_to_uint8(shown)[1] == frozenset()


def test_quantizers_of_microsofts_domain_are_moved_as_onnxs_are():
    graph = foreign_graph((INPUT_QDQ + WD + "r = Conv(xd, wd)" + OUTPUT_QDQ), **SIGNED)
    for node in graph.nodes:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            node.domain = "com.microsoft"
    moved, names = shift_pairs_to_uint8(graph)
    assert names == {"xq", "yq"}
    feed = random_samples(SHAPE)[0].feed
    before, after = (Session(g, threads=1).run(feed)[0] for g in (graph, moved))
    assert np.array_equal(before, after)
