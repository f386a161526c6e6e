"""Inputs that one node takes in other parameters; the plan and LiteRT's specification are the oracles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from networks import QuantizedNetwork, build_network, quantize_network, worst_sqnr_db
from parts import CONV, WB

from ptq.core.errors import PlanError
from ptq.core.plan import Plan
from ptq.core.types import INT8, QuantParams
from ptq.executor.executor import Executor
from ptq.model.node import get_name, get_operator
from ptq.model.qdq.qdq_units import find_quantized_source
from ptq.rewrite.emit.to_qdq import to_qdq
from ptq.verification.lint import lint_graph

NODES = CONV + "s = Sigmoid(c)\nm = Concat<axis=1>(c, s)\ny = Mul(s, s)"
EDGE = ("Concat_m", 1)


@pytest.fixture(scope="module")
def done() -> QuantizedNetwork:
    return quantize_network(build_network(NODES, None, ["m", "y"], **WB), target="litert")


def inputs_of(done: QuantizedNetwork, plan: Plan, op: str) -> list[QuantParams]:
    """What the inputs of the operator mean in the written graph."""
    (node,) = (n for n in to_qdq(done.prepared, plan).nodes if get_operator(n) == op)
    found = [find_quantized_source(value) for value in node.inputs]
    return [f.params for f in found if f is not None]


def test_the_pair_stands_on_the_way_to_that_node_alone(done: QuantizedNetwork) -> None:
    tensors = done.plan.tensors
    assert list(done.plan.edges) == [EDGE]
    assert inputs_of(done, done.plan, "Concat") == [tensors["m"], tensors["m"]]
    assert inputs_of(done, done.plan, "Mul") == [tensors["s"], tensors["s"]]
    assert float(tensors["s"].scale) == 1 / 256


def test_nothing_of_the_graph_runs_in_float_nor_breaks_the_specification(
    done: QuantizedNetwork,
) -> None:
    program = Executor(done.qdq, "litert").program
    ops = [getattr(step, "op", None) for step in program.steps]
    assert ops.count("Requantize") == 1
    assert None not in ops
    assert lint_graph(done.qdq) == ()
    assert worst_sqnr_db(done) > 25


def test_the_requantized_integers_are_the_nearest(done: QuantizedNetwork) -> None:
    executor = Executor(done.qdq, "litert")
    (step,) = (s for s in executor.program.steps if getattr(s, "op", "") == "Requantize")
    source, target = str(step.inputs[0]), step.outputs[0]
    run = executor.run(done.feeds[0], [source, target])
    before, after = done.plan.tensors["s"], done.plan.edges[EDGE]
    # QUANTIZE rounds twice: half a step, and half of half a step
    real = before.dequantize(run[source]).astype(np.float64) / float(after.scale)
    assert np.abs(run[target] - np.clip(real + int(after.zero_point), -128, 127)).max() <= 0.75


def test_an_edited_edge_is_applied(done: QuantizedNetwork) -> None:
    wider = QuantParams.per_tensor(0.5, 3, INT8)
    plan = replace(done.plan, edges={EDGE: wider})
    assert inputs_of(done, plan, "Concat") == [done.plan.tensors["m"], wider]
    assert Plan.from_json(plan.to_json()).edges == {EDGE: wider}


def test_a_plan_without_edges_is_read_as_one_that_has_none(done: QuantizedNetwork) -> None:
    text = done.plan.to_json()
    before, _, rest = text.partition(' "edges": {')
    _, _, after = rest.partition("\n },\n")
    assert Plan.from_json(before + after).edges == {}


@pytest.mark.parametrize(
    ("edge", "params", "message"),
    [
        (("Concat_m", 2), QuantParams.per_tensor(0.5, 3, INT8), "not an input"),
        (("Concat_z", 0), QuantParams.per_tensor(0.5, 3, INT8), "not in the graph"),
        (EDGE, QuantParams(np.float32([0.5, 1]), np.zeros(2, np.int64), INT8, 0), "one scale"),
    ],
)
def test_an_edge_that_the_graph_does_not_have_is_refused(
    done: QuantizedNetwork, edge: tuple[str, int], params: QuantParams, message: str
) -> None:
    with pytest.raises(PlanError, match=message):
        to_qdq(done.prepared, replace(done.plan, edges={edge: params}))


def test_the_names_of_what_others_read_stay(done: QuantizedNetwork) -> None:
    outputs = [get_name(value) for value in done.qdq.outputs]
    assert outputs == ["m", "y"]
