"""Bounds and fill values that other tools quantize: the float meaning of the operator is the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from foreign_models import INPUT_QDQ, foreign_graph, random_samples

from ptq.core.run_options import RunOptions
from ptq.executor.executor import Executor
from ptq.model.session.session import Session
from ptq.verification.conversion import convert_graph
from ptq.verification.node_status import list_node_statuses
from ptq.verification.verify import verify_graph

SHAPE = (1, 3, 6, 6)
SAME = "yq = QuantizeLinear(r, x_scale, x_zero)\ny = DequantizeLinear(yq, x_scale, x_zero)"
VALUE = "vd = DequantizeLinear(v, x_scale, x_zero)\n"
PADS = np.array([0, 0, 1, 1, 0, 0, 1, 0])


@pytest.mark.parametrize("value", [0, 30, 200])
@pytest.mark.parametrize(
    "node", ["Pad(xd, p, vd)", "Clip(xd, vd)", "Clip(xd, , vd)"], ids=["Pad", "min", "max"]
)
def test_a_value_that_is_quantized_is_the_number_it_stands_for(node, value):
    graph = foreign_graph(
        INPUT_QDQ + VALUE + f"r = {node}\n" + SAME, SHAPE, p=PADS, v=np.uint8(value)
    )
    every = random_samples(SHAPE)
    assert verify_graph(graph, every, run=RunOptions(threads=1)).equal
    theirs = Session(graph, threads=1, optimize="none")
    converted = Session(convert_graph(graph, "qoperator"), threads=1)
    integers = Executor(graph, "litert")
    assert not integers.islands
    for sample in every:
        (expected,) = theirs.run(sample.feed)
        np.testing.assert_array_equal(converted.run(sample.feed)[0], expected)
        np.testing.assert_array_equal(integers.run(sample.feed)["y"], expected)


def test_a_node_with_a_value_that_is_computed_stays_float():
    graph = foreign_graph(
        INPUT_QDQ + "v = ReduceMax<keepdims = 0>(xd)\nr = Clip(xd, , v)\n" + SAME, SHAPE, opset=17
    )
    assert verify_graph(graph, random_samples(SHAPE), run=RunOptions(threads=1)).equal
    (fate,) = [fate for fate in list_node_statuses(graph) if fate.op == "Clip"]
    assert fate.why == "must stay float: value v is computed"
    (sample, *_) = random_samples(SHAPE)
    theirs = Session(graph, threads=1, optimize="none").run(sample.feed)[0]
    np.testing.assert_array_equal(Executor(graph, "litert").run(sample.feed)["y"], theirs)
