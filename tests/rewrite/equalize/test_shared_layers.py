"""Nodes that share a weight get the same factors. Oracle: the float model before and after factors."""

from __future__ import annotations

import numpy as np
import pytest
from networks import build_network, gaussian_array

from ptq.model.graph import Graph
from ptq.model.node import get_constant
from ptq.model.session.session import Session
from ptq.model.weights.shared_weights import find_weight_families
from ptq.rewrite.equalize.channel_groups import FIXED, ChannelGroups, group_channels
from ptq.rewrite.equalize.layer_pairs import find_layer_pairs
from ptq.rewrite.equalize.scale_channels import scale_channels, to_group_factors, to_tensor_factors
from ptq.rewrite.equalize.split_outliers import group_tied_sites, split_channels, split_sites
from ptq.rewrite.prepare.prepare import prepare

TWO_BRANCHES = """
    [a1] a = Conv(x, first, bias)
    [a2] b = Relu(a)
    [a3] c = Conv(b, second)
    [b1] d = Conv(half, first, bias)
    [b2] e = Relu(d)
    [b3] f = Conv(e, {last})
    y = Add(c, f)
"""


def branches(last: str = "second", between: str = "half = Sigmoid(x)") -> Graph:
    """Two branches of two layers; the first layers share a weight and a bias, the second ones too by default."""
    model = build_network(
        between + TWO_BRANCHES.format(last=last),
        first=gaussian_array(6, 3, 1, 1, seed=1),
        bias=gaussian_array(6, seed=2),
        second=gaussian_array(4, 6, 1, 1, seed=3),
        other=gaussian_array(4, 6, 1, 1, seed=4),
    )
    return prepare(Graph.from_proto(model)).graph


def grouped(graph: Graph) -> ChannelGroups:
    return group_channels(graph, families=find_weight_families(graph))


def test_all_uses_of_a_weight_have_the_same_channel_groups():
    found = grouped(branches()).groups
    assert (found["a"] == found["d"]).all()
    assert (found["a"] != FIXED).all()


def test_a_weight_of_which_one_use_cannot_be_scaled_stays_unchanged():
    graph = branches().copy()
    graph.add_outputs(["d"])
    assert "a" not in grouped(graph).groups
    assert "a" in group_channels(graph).groups


def test_a_reader_of_its_own_ties_what_the_writers_share():
    found = grouped(branches("other")).groups
    assert (found["a"] == found["d"]).all()


def test_scaled_layers_still_share_and_compute_the_same():
    graph = branches()
    found = grouped(graph)
    factors = np.ones(found.group_count)
    factors[found.groups["a"]] = np.exp2(gaussian_array(6, seed=5))
    plain = group_channels(graph)
    scaled = scale_channels(graph, to_group_factors(plain, to_tensor_factors(found, factors)))
    feed = {"x": gaussian_array(1, 3, 8, 8, seed=6)}
    before, after = (Session(g, threads=1).run(feed)[0] for g in (graph, scaled))
    np.testing.assert_allclose(before, after, rtol=1e-4, atol=1e-5)
    nodes = {node.name: node for node in scaled.nodes}
    for one, other, position in (("a1", "b1", 1), ("a1", "b1", 2), ("a3", "b3", 1)):
        assert nodes[one].inputs[position] is nodes[other].inputs[position]
    first = {node.name: node for node in graph.nodes}["a1"]
    assert not np.array_equal(get_constant(nodes["a1"].inputs[1]), get_constant(first.inputs[1]))


@pytest.mark.parametrize("last", ["second", "other"])
def test_pairs_of_layers_leave_shared_weights_alone(last):
    assert find_layer_pairs(branches(last)) == []


def test_pairs_without_shared_weights_are_still_found():
    graph = branches("other")
    assert not find_layer_pairs(graph)
    node = {node.name: node for node in graph.nodes}["b1"]
    node.replace_input_with(1, graph.add_constant(gaussian_array(6, 3, 1, 1, seed=8), "own"))
    assert len(find_layer_pairs(graph)) == 2


def test_products_that_share_a_weight_split_off_the_same_outliers():
    model = build_network(
        """
        [one] a = MatMul(x, w)
        r = Relu(a)
        [two] b = MatMul(r, w)
        s = Relu(b)
        [three] y = MatMul(s, v)
        """,
        {"x": ("n", 32)},
        w=gaussian_array(32, 32, seed=1, scale=0.2),
        v=gaussian_array(32, 32, seed=2, scale=0.2),
    )
    graph = prepare(Graph.from_proto(model)).graph
    sites = split_sites(graph, ["one", "two", "three"])
    assert group_tied_sites(graph, sites) == [("x", "r"), ("s",)]
    by = np.linspace(0.5, 2, 32).astype(np.float32)
    by[3] = 0
    changed, _ = split_channels(graph, sites, {"x": by, "r": by})
    nodes = {node.name: node for node in changed.nodes}
    assert nodes["one"].inputs[1] is nodes["two"].inputs[1]
    assert find_weight_families(changed)["one"] == ("one", "two")
    feed = {"x": gaussian_array(5, 32, seed=3)}
    before, after = (Session(g, threads=1).run(feed)[0] for g in (graph, changed))
    np.testing.assert_allclose(before, after, rtol=1e-3, atol=1e-4)
