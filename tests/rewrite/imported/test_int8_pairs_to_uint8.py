"""int8 activations moved to uint8: ONNX Runtime computes the same reals, and the same integers 128 higher."""

from __future__ import annotations

import numpy as np
import pytest
from foreign_models import INPUT, OUTPUT, foreign, reals, samples, weights

from ptq.model.session import Session
from ptq.rewrite.imported.int8_pairs_to_uint8 import signed, unsigned_pairs

WD = "wd = DequantizeLinear(w, w_scale, w_zero)\n"
SIGNED = {"x_zero": np.int8(-8), "y_zero": np.int8(-20), "w": weights(3, 3, 3, 3)}
SHAPE = (1, 3, 8, 8)


@pytest.mark.parametrize("optimize", ["all", "none"])
def test_the_model_computes_the_same(optimize):
    graph = foreign(INPUT + WD + "r = Conv(xd, wd, b)" + OUTPUT, b=reals(3), **SIGNED)
    moved, names = unsigned_pairs(graph)
    assert names == {"xq", "yq"}
    sessions = [Session(g, threads=1, optimize=optimize) for g in (graph, moved)]
    for sample in samples(SHAPE):
        before, after = (session.run(sample.feed)[0] for session in sessions)
        assert np.array_equal(before, after)


def test_its_integers_are_those_of_the_signed_model_and_128():
    graph = foreign(INPUT + WD + "r = Conv(xd, wd)" + OUTPUT, **SIGNED)
    moved, _ = unsigned_pairs(graph)
    for each in (graph, moved):
        each.expose(["xq"])
    feed = samples(SHAPE)[0].feed
    plain, unsigned = (Session(g, threads=1).run(feed, ["xq"])[0] for g in (graph, moved))
    assert unsigned.dtype == np.uint8
    assert np.array_equal(signed(unsigned), plain)


def test_a_tensor_with_two_readers_or_an_output_of_the_model_stays():
    residual = foreign(
        INPUT + WD + "c = Conv<pads = [1, 1, 1, 1]>(xd, wd)\nr = Add(c, xd)" + OUTPUT, **SIGNED
    )
    assert unsigned_pairs(residual)[1] == {"yq"}
    shown = foreign(INPUT + WD + "r = Conv(xd, wd)" + OUTPUT, **SIGNED)
    shown.expose(["xq", "yq"])
    assert unsigned_pairs(shown)[1] == frozenset()


def test_quantizers_of_microsofts_domain_are_moved_as_onnxs_are():
    graph = foreign((INPUT + WD + "r = Conv(xd, wd)" + OUTPUT), **SIGNED)
    for node in graph.nodes:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            node.domain = "com.microsoft"
    moved, names = unsigned_pairs(graph)
    assert names == {"xq", "yq"}
    feed = samples(SHAPE)[0].feed
    before, after = (Session(g, threads=1).run(feed)[0] for g in (graph, moved))
    assert np.array_equal(before, after)
