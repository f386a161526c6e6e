"""Target ``qnn``: pieces of normalizations in 16 bits among nodes of 8 bits, and Reciprocal as a quotient."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from networks import (
    build_network,
    gaussian_array,
    quantize_network,
    random_feeds,
    sqnr_db,
    worst_sqnr_db,
)

import ptq
from ptq.core.targets import TARGETS
from ptq.core.types import INT16, UINT8, UINT16, QuantParams
from ptq.executor.runtimes.registry import RUNTIMES, open_in_runtime
from ptq.model.graph import Graph
from ptq.model.node import get_name
from ptq.model.session.session import Session
from ptq.solver.scales.weight_qparams import with_derived_biases
from ptq.solver.scales.wide_tensors import widen_qparams

NODES = (
    "c = Conv<pads = [1, 1, 1, 1]>(x, u)\nm = ReduceMean<axes = [1], keepdims = 1>(c)\nd = Sub(c, m)\n"
    "s = Mul(d, d)\nv = ReduceMean<axes = [1], keepdims = 1>(s)\na = Add(v, eps)\nr = Sqrt(a)\n"
    "i = Reciprocal(r)\nn = Mul(d, i)\ng = Mul(n, gamma)\ny = Conv<pads = [1, 1, 1, 1]>(g, w, b)"
)
WEIGHTS = {
    "u": gaussian_array(8, 3, 3, 3, scale=0.02),
    "w": gaussian_array(4, 8, 3, 3, seed=1, scale=0.1),
    "b": gaussian_array(4, seed=2),
    "eps": np.float32(1e-6),
    "gamma": gaussian_array(8, 1, 1, seed=4),
}
MODEL = build_network(NODES, **WEIGHTS)
PIECES = {"m", "d", "s", "v", "a", "r", "i", "n", "g"}
NEEDS_QNN = pytest.mark.skipif(
    not RUNTIMES["qnn"].is_installed(), reason=f"needs: {RUNTIMES['qnn'].install}"
)


@pytest.fixture(scope="module")
def done() -> Any:
    return quantize_network(MODEL, target="qnn")


def test_pieces_of_a_normalization_have_16_bits_and_the_others_8(done: Any) -> None:
    widths = {name: params.qtype.bits for name, params in done.plan.tensors.items()}
    assert {name for name, bits in widths.items() if bits == 16} == PIECES
    assert (widths["x"], widths["c"], widths["y"]) == (8, 8, 8)
    assert not set(done.plan.floats) & {f"Mul_{name}" for name in PIECES}


def test_each_node_reads_what_it_writes_in_one_width(done: Any) -> None:
    plan, changed = done.plan, 0
    for node in done.prepared.nodes:
        for position, value in enumerate(node.inputs):
            before = plan.tensors.get(get_name(value)) if value is not None else None
            edge = plan.edges.get((node.name or "", position))
            after = plan.tensors.get(get_name(node.outputs[0]))
            if before is None or after is None:
                continue
            assert (edge or before).qtype.bits == after.qtype.bits
            changed += edge is not None
    assert changed >= 2


def test_a_bias_has_the_scale_of_the_input_that_its_node_reads(done: Any) -> None:
    plan = done.plan
    [(key, edge)] = [(k, p) for k, p in plan.edges.items() if k[0] == "Conv_y"]
    assert key[1] == 0
    assert edge.qtype == UINT8
    scales = edge.scale * plan.operands["Conv_y", 1].scale
    np.testing.assert_array_equal(plan.operands["Conv_y", 2].scale, scales)
    again = with_derived_biases(done.prepared, plan)
    assert again.operands["Conv_y", 2] == plan.operands["Conv_y", 2]


def test_16_bits_hold_what_8_bits_do_not() -> None:
    """Positions whose variances differ by a factor of 1,000: most share the lowest steps of 8 bits."""
    rng = np.random.default_rng(0)
    loud = (10 ** rng.uniform(-1.5, 0.0, (1, 1, 8, 8))).astype(np.float32)
    feeds = [{"x": gaussian_array(1, 3, 8, 8, seed=k) * loud} for k in range(4)]
    wide = quantize_network(MODEL, feeds, target="qnn")
    narrow = quantize_network(MODEL, feeds, target=replace(TARGETS["qnn"], wide_activation=None))
    assert worst_sqnr_db(wide) > worst_sqnr_db(narrow) + 3


def test_a_plan_of_two_widths_is_read_as_it_was_written() -> None:
    data = {"x": gaussian_array(8, 3, 8, 8, seed=5)}
    options: Any = {"target": "qnn", "eval_data": data, "threads": 1, "force": True}
    first = ptq.quantize(MODEL, data, effort="fast", rounding="nearest", **options)
    plan = ptq.Plan.from_json(first.plan.to_json())
    again = ptq.quantize(MODEL, data, plan=plan, effort="fast", rounding="nearest", **options)
    assert again.plan.tensors == first.plan.tensors
    assert again.plan.edges == first.plan.edges
    [one], [two] = (Session(r.graph, threads=1).run({"x": data["x"][:1]}) for r in (first, again))
    np.testing.assert_array_equal(one, two)


def test_a_network_without_such_pieces_has_8_bits_only() -> None:
    model = build_network("c = Conv(x, u)\ny = Relu(c)", u=WEIGHTS["u"])
    plan = quantize_network(model, target="qnn").plan
    assert {params.qtype.bits for params in plan.tensors.values()} == {8}
    assert plan.edges == {}


@pytest.mark.parametrize("wide", [UINT16])
def test_widening_keeps_the_range(wide: Any) -> None:
    narrow = QuantParams.per_tensor(0.02, 100, UINT8)
    found = widen_qparams(narrow, wide)
    for end, other in ((UINT8.lo, wide.lo), (UINT8.hi, wide.hi)):
        before = float(narrow.scale) * (end - int(narrow.zero_point))
        assert float(found.scale) * (other - int(found.zero_point)) == pytest.approx(before)
    assert widen_qparams(found, wide) is found


@pytest.mark.parametrize("target", ["qnn", "qnn-a16"])
def test_a_reciprocal_is_written_as_a_quotient_with_its_name(target: str) -> None:
    done = quantize_network(MODEL, target=target)
    assert "Reciprocal" not in {node.op_type for node in done.qdq.nodes}
    [quotient] = [node for node in done.qdq.nodes if node.op_type == "Div"]
    assert quotient.name == "Reciprocal_i"
    feed = random_feeds(MODEL)[0]
    [found] = Session(done.qdq, threads=1).run(feed)
    [expected] = Session(Graph.from_proto(MODEL), threads=1).run(feed)
    assert sqnr_db(expected, found) > 20


def test_other_targets_keep_the_reciprocal() -> None:
    done = quantize_network(MODEL, target="litert")
    plan = done.plan
    assert "Reciprocal" in {node.op_type for node in done.qdq.nodes}
    assert {params.qtype.bits for params in plan.tensors.values()} == {8}
    assert INT16 not in {params.qtype for params in plan.tensors.values()}


@NEEDS_QNN
def test_a_reciprocal_of_small_numbers_is_right_on_the_htp() -> None:
    """The provider's own Reciprocal takes a range below 1 for 1."""
    x = np.abs(gaussian_array(1, 3, 8, 8, seed=3)) * np.float32(0.03) + np.float32(0.01)
    model = build_network("y = Reciprocal(x)")
    for target in ("qnn", "qnn-a16"):
        done = quantize_network(model, [{"x": x}], target=target)
        theirs = open_in_runtime("qnn", done.qdq, threads=1).run({"x": x})[0]
        assert sqnr_db(1 / x, theirs) > 35


@NEEDS_QNN
def test_the_htp_runs_both_widths_and_every_node(done: Any) -> None:
    model = open_in_runtime("qnn", done.qdq, threads=1)
    feed = random_feeds(MODEL)[0]
    [theirs], [ours] = model.run(feed), Session(done.qdq, threads=1).run(feed)
    assert sqnr_db(ours, theirs) > 25
    assert all(node.intended for node in model.placement())
