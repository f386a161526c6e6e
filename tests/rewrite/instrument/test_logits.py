"""Oracle: ONNX Runtime on the models before and after."""

from __future__ import annotations

import numpy as np
import pytest
from networks import build_network, gaussian_array

from ptq.model.graph import Graph
from ptq.model.node import get_name
from ptq.model.session.session import Session
from ptq.rewrite.instrument.logits import build_logits_graph, build_segments_graph, find_common_cut

BODY = "r = Relu(x)\ns = Gemm(r, w, b)\n"
X = {"x": ("n", 4)}


def made(nodes: str, output: str = "y") -> Graph:
    """A layer and what follows."""
    weights = {
        "w": gaussian_array(4, 3),
        "b": gaussian_array(3, seed=1),
        "b2": gaussian_array(5, 1),
        "shape": np.array([-1, 3, 1]),
        "all": np.array([-1]),
    }
    return Graph.from_proto(build_network(BODY + nodes, X, outputs=(output,), **weights))


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Sigmoid"])
def test_the_input_of_a_last_softmax_or_sigmoid_becomes_the_output(op: str) -> None:
    graph = made(f"y = {op}(s)")
    changed = build_logits_graph(graph)
    assert [get_name(v) for v in changed.outputs] == ["s"]
    feed = {"x": gaussian_array(5, 4, seed=2)}
    graph.add_outputs(["s"])
    truth = Session(graph).run(feed, ["s"])[0]
    assert np.array_equal(Session(changed).run(feed)[0], truth)


def test_probabilities_that_are_only_moved_are_seen_through() -> None:
    graph = made("p = Softmax(s)\nq = Reshape(p, shape)\ny = Squeeze(q)")
    assert [get_name(v) for v in build_logits_graph(graph).outputs] == ["s"]


@pytest.mark.parametrize("nodes", ["y = Relu(s)", "t = Softmax(s)\ny = Neg(t)"])
def test_other_outputs_stay(nodes: str) -> None:
    graph = made(nodes)
    assert build_logits_graph(graph) is graph


def test_a_softmax_of_an_input_stays() -> None:
    graph = Graph.from_proto(build_network("y = Softmax(x)", X))
    assert build_logits_graph(graph) is graph


def test_shapes_are_kept() -> None:
    changed = build_logits_graph(made("y = Softmax(s)").with_shapes())
    shapes = {v.name: v.shape for node in changed.nodes for v in node.outputs}
    assert shapes["r"] is not None
    assert shapes["s"] is not None


def test_each_input_of_a_concatenated_output_becomes_an_output() -> None:
    graph = made("p = Sigmoid(s)\nn = Neg(s)\nj = Concat<axis=1>(n, p, b2)\ny = Reshape(j, all)")
    changed = build_logits_graph(graph)
    assert [get_name(v) for v in changed.outputs] == ["n", "s"]
    feed = {"x": gaussian_array(5, 4, seed=2)}
    graph.add_outputs(["n", "s"])
    for one, other in zip(
        Session(changed).run(feed), Session(graph).run(feed, ["n", "s"]), strict=True
    ):
        assert np.array_equal(one, other)


def test_segments_of_a_concatenated_output_stay_probabilities() -> None:
    graph = made("p = Sigmoid(s)\nn = Neg(s)\nj = Concat<axis=1>(n, p, b2)\ny = Reshape(j, all)")
    assert [get_name(v) for v in build_segments_graph(graph).outputs] == ["n", "p"]
    plain = made("y = Sigmoid(s)")
    assert build_segments_graph(plain) is plain


def test_segments_of_joined_levels_are_separate_outputs() -> None:
    graph = made("p = Sigmoid(s)\nn = Neg(s)\nj = Concat<axis=1>(n, p)\ny = Concat<axis=1>(j, r)")
    assert [get_name(v) for v in build_segments_graph(graph).outputs] == ["n", "p", "r"]


def test_an_output_may_be_joined_step_by_step() -> None:
    steps = [f"c{i + 1} = Concat<axis = 1>(c{i}, s)" for i in range(1100)]
    graph = made("\n".join(["c0 = Relu(s)", *steps]), "c1100")
    assert [get_name(v) for v in build_segments_graph(graph).outputs] == ["c0", "s"]
    assert find_common_cut([graph, graph]) == {"c1100"}


def test_a_join_of_nothing_computed_stays() -> None:
    graph = Graph.from_proto(build_network("y = Concat<axis=1>(x, x)", X))
    assert build_logits_graph(graph) is graph


def test_an_output_that_is_an_input_or_a_constant_stays() -> None:
    graph = made("y = Softmax(s)").copy()
    constant = graph.add_constant(np.ones(3, np.float32), "c")
    graph.set_outputs([*graph.outputs, *graph.inputs, constant])
    assert [get_name(v) for v in build_logits_graph(graph).outputs] == ["s", "x", "c"]


def make_joined() -> Graph:
    """A graph with a Concat and probabilities as outputs."""
    graph = made("n = Neg(s)\nj = Concat<axis=1>(n, s)\np = Softmax(s)", "j")
    made_values = [v for node in graph.nodes for v in node.outputs]
    graph.set_outputs([v for v in made_values if v.name in ("j", "p")])
    return graph


@pytest.mark.parametrize(("changed", "common"), [("j", "p"), ("p", "j")])
def test_only_outputs_that_end_in_the_same_nodes_are_cut_alike(changed: str, common: str) -> None:
    plain, rewritten = make_joined(), make_joined()
    [old] = [v for v in rewritten.outputs if v.name == changed]
    factors = [rewritten.add_constant(np.array(k, np.float32), "k") for k in (2.0, 0.5)]
    scaled = rewritten.insert("Mul", [old, factors[0]], output="scaled")
    rewritten.replace_output(old, rewritten.insert("Mul", [scaled, factors[1]], output="same"))
    cut = find_common_cut([plain, rewritten])
    assert cut == {common}
    feed = {"x": gaussian_array(5, 4, seed=2)}
    before, after = (Session(build_logits_graph(g, cut)).run(feed) for g in (plain, rewritten))
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)
    assert find_common_cut([plain, plain.copy()]) == {"j", "p"}
