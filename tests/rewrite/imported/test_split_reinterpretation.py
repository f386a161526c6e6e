"""Integers written with one scale and read with another, as hard sigmoids do; ONNX Runtime is the oracle."""

from __future__ import annotations

import numpy as np
from foreign_models import INPUT_QDQ, OUTPUT_QDQ, foreign_graph, random_samples

from ptq.core.run_options import RunOptions
from ptq.executor.executor import Executor
from ptq.model.session.session import Session
from ptq.verification.conversion import convert_graph
from ptq.verification.verify import verify_graph

SHAPE = (1, 3, 8, 8)
SPLIT = """
s = Relu(xd)
sq = QuantizeLinear(s, s_scale, x_zero)
sd = DequantizeLinear(sq, w_scale, x_zero)
r = Sigmoid(sd)
"""
NAMED = """
again = Identity(xq)
sd = DequantizeLinear(again, w_scale, w_zero)
r = Sigmoid(sd)
"""


def test_a_second_reading_of_a_tensor_leaves_the_first_as_it_was():
    graph = foreign_graph(INPUT_QDQ + SPLIT + OUTPUT_QDQ, SHAPE, s_scale=np.float32(0.05))
    found = verify_graph(graph, random_samples(SHAPE), run=RunOptions(threads=1))
    assert found.equal, found.first
    assert {"QuantizeLinear", "Sigmoid"} <= {tensor.op for tensor in found.tensors}
    session = Session(graph, threads=1)
    for sample in random_samples(SHAPE):
        ours = Executor(graph).run(sample.feed)["y"]
        assert np.array_equal(ours, session.run(sample.feed)[0])


def test_an_identity_that_changes_the_meaning_survives_both_conversions():
    graph = foreign_graph(INPUT_QDQ + NAMED + OUTPUT_QDQ, SHAPE, w_zero=np.uint8(3))
    converted = graph
    for form in ("qoperator", "qdq", "qoperator", "qdq"):
        converted = convert_graph(converted, form)
        assert verify_graph(converted, random_samples(SHAPE), run=RunOptions(threads=1)).equal
        for sample in random_samples(SHAPE):
            one, other = (Session(g, threads=1).run(sample.feed)[0] for g in (graph, converted))
            assert np.array_equal(one, other)
