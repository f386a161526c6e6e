"""Channels scaled between integers and float; ONNX Runtime, in float and on integers, is the oracle."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from networks import (
    QuantizedNetwork,
    build_network,
    gaussian_array,
    optimized_kernels,
    random_feeds,
    to_samples,
    worst_sqnr_db,
)

from ptq.calibration.collect import observe
from ptq.core.plan import Plan
from ptq.core.run_options import RunOptions
from ptq.core.targets import TARGETS
from ptq.executor.executor import Executor
from ptq.model.graph import Graph
from ptq.model.node import get_constant, get_name, get_operator
from ptq.model.session.exposed_session import CollectedTensors
from ptq.model.session.session import Session
from ptq.rewrite.emit.to_qdq import to_qdq
from ptq.rewrite.equalize.boundary_scales import find_boundary_scale_nodes
from ptq.rewrite.equalize.channel_groups import FIXED, group_channels
from ptq.rewrite.equalize.scale_channels import scale_channels, to_group_factors, to_tensor_factors
from ptq.solver.assign import list_tensors_to_observe
from ptq.solver.partition.boundaries import find_per_channel_boundaries
from ptq.solver.recipe import Recipe
from ptq.solver.solve import solve
from ptq.verification.conversion import convert_graph
from ptq.verification.verify import verify_graph

C = 16
GIVEN = {
    "w": gaussian_array(C, 3, 3, 3, scale=0.3),
    "b": gaussian_array(C, seed=1),
    "deep": gaussian_array(C, 1, 3, 3, seed=2, scale=0.3),
    "square": gaussian_array(C, C, 1, 1, seed=3, scale=0.1),
    "v": gaussian_array(4, C, 1, 1, seed=4, scale=0.3),
}
BEFORE = "c = Conv<pads = [1, 1, 1, 1]>(x, w, b)\n"
DEEP = "d = Conv<pads = [1, 1, 1, 1], group = 16>(h, deep)\n"
SWISH = "h = HardSwish(c)\n" + DEEP
LAST = "y = Conv(s, v)"
NETWORKS = {
    "hard swishes": (SWISH + "s = HardSwish(d)\n" + LAST, "hds", "y", "csy"),
    "others": (
        "h = Sigmoid(c)\n" + DEEP + "g = Sigmoid(d)\ns = Mul(d, g)\n" + LAST,
        "hdgs",
        "y",
        "csy",
    ),
    "a residual": (SWISH + "e = HardSwish(d)\ns = Add(e, c)\n" + LAST, "hde", "y", "cey"),
    "squeezed": (
        SWISH + "e = HardSwish(d)\np = GlobalAveragePool(e)\nq = Conv(p, square)\n"
        "g = HardSigmoid(q)\ns = Mul(e, g)\n" + LAST,
        "hde",
        "y",
        "cey",
    ),
    "moved": (
        SWISH + "s = HardSwish(d)\nm = MaxPool<kernel_shape = [2, 2]>(s)\ny = Conv(m, v)",
        "hds",
        "y",
        "csy",
    ),
    "an output of float": (SWISH + "s = HardSwish(d)\n" + LAST, "hds", "ys", "csy"),
    "outputs of integers": ("s = Conv(c, square)\n" + LAST, "", "ysc", "csy"),
    "an output that float reads": (SWISH + "y = HardSwish(d)", "hdy", "yc", "c"),
}
"""What follows a convolution to c, what of it stays float, the outputs, the tensors between integers and float."""


@dataclass(frozen=True, eq=False)
class ScaledNetwork:
    """A network with random factors at its int/float boundaries."""

    plain: Graph
    scaled: Graph
    plan: Plan
    qdq: Graph
    done: QuantizedNetwork


def parted(name: str, spread: float = 2.0) -> ScaledNetwork:
    nodes, real, outputs, _ = NETWORKS[name]
    model = build_network(BEFORE + nodes, outputs=[*outputs], **GIVEN)
    plain = Graph.from_proto(model).with_shapes()
    floats = [node.name or "" for node in plain.nodes if get_name(node.outputs[0]) in real]
    parting = find_per_channel_boundaries(plain, floats)
    found = group_channels(plain, boundaries=parting)
    factors = 2 ** np.random.default_rng(7).uniform(-spread, spread, found.group_count)
    factors[FIXED] = 1
    given = to_tensor_factors(found, factors)
    np.testing.assert_array_equal(to_group_factors(found, given), factors)
    scaled = scale_channels(plain, factors, parting)
    row = TARGETS["ort"]
    these = random_feeds(model)
    seen = observe(
        scaled,
        to_samples(these),
        CollectedTensors(list_tensors_to_observe(scaled)),
        run=RunOptions(threads=1),
    )
    skip = dict.fromkeys(
        [*floats, *(n.name or "" for n in find_boundary_scale_nodes(scaled, parting))], "float"
    )
    plan = solve(scaled, seen.tensors, row, Recipe(method="minmax", float_nodes=skip))
    plan = replace(plan, channel_factors=given, boundaries=parting)
    qdq = to_qdq(scaled, plan)
    return ScaledNetwork(
        plain, scaled, plan, qdq, QuantizedNetwork(model, these, scaled, seen, plan, qdq)
    )


@pytest.mark.parametrize("name", NETWORKS)
def test_the_function_stays_in_float(name: str) -> None:
    net = parted(name)
    assert set(net.plan.boundaries) == set(NETWORKS[name][3])
    weights = [get_constant(graph.nodes[0].inputs[1]) for graph in (net.plain, net.scaled)]
    assert np.abs(np.log2(np.abs(weights[1] / weights[0]).max(axis=(1, 2, 3)))).max() > 0.5
    feed = {"x": gaussian_array(1, 3, 8, 8, seed=5)}
    for one, other in zip(
        *(Session(g, threads=1).run(feed) for g in (net.plain, net.scaled)), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_all_forms_compute_the_same_and_quantizers_do_what_multiplications_did(name: str) -> None:
    net = parted(name, 0.5)
    for graph in (net.qdq, net.done.qlinear):
        found = verify_graph(graph, to_samples(net.done.feeds), run=RunOptions(threads=1))
        assert found.equal, found.first
        feed = net.done.feeds[0]
        ours, theirs = Executor(graph).run(feed), Session(graph, threads=1).run(feed)
        for output, other in zip(NETWORKS[name][2], theirs, strict=True):
            np.testing.assert_allclose(ours[output], other, rtol=1e-5, atol=1e-6)
    assert worst_sqnr_db(net.done) > 25
    scales = [
        get_constant(node.inputs[1]).size
        for node in net.qdq.nodes
        if get_operator(node) in ("QuantizeLinear", "DequantizeLinear")
        and get_constant(node.inputs[0]) is None
    ]
    assert sorted(size for size in scales if size > 1) == sorted(
        4 if of == "y" else C for of in NETWORKS[name][3]
    )
    assert not any("factors" in get_name(v) for n in net.qdq.nodes for v in n.inputs if v)
    convolutions = {get_name(n.outputs[0]) for n in net.plain.nodes if get_operator(n) == "Conv"}
    integers = convolutions - set(NETWORKS[name][1])
    assert optimized_kernels(net.qdq)["QLinearConv"] == len(integers)


@pytest.mark.parametrize("name", NETWORKS)
def test_both_forms_convert_into_each_other(name: str) -> None:
    net = parted(name, 0.5)
    feed = net.done.feeds[0]
    truth = Session(net.qdq, threads=1).run(feed)
    for graph in (net.qdq, net.done.qlinear):
        for form in ("qoperator", "qdq", "qoperator"):
            graph = convert_graph(graph, form)
            for one, other in zip(truth, Session(graph, threads=1).run(feed), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(), (3,)])
def test_products_without_channels_have_no_boundary_scale(shape):
    model = build_network("y = Mul(x, two)", {"x": shape}, two=np.full(shape, 2, np.float32))
    assert find_boundary_scale_nodes(Graph.from_proto(model), {"x": ("n",)}) == []
