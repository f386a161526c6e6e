"""Nodes to keep float, by the names of the model before and after preparation."""

from __future__ import annotations

import onnx
import onnx.parser
import pytest
from networks import build_network, gaussian_array

from ptq.core.errors import UsageError
from ptq.model.graph import Graph
from ptq.rewrite.prepare.prepare import prepare
from ptq.solver.skipped_nodes import resolve_skipped_nodes

NODES = (
    "c = Conv(x, w)\nd = Div(c, half)\ne = Identity(d)\nr = Relu(e)\n"
    "y = ReduceMean<axes = [2, 3], keepdims = 0>(r)"
)
SOURCE = Graph.from_proto(
    build_network(
        NODES,
        {"x": (1, 3, 8, 8)},
        w=gaussian_array(4, 3, 1, 1),
        half=gaussian_array(4, 1, 8),
    )
)
PREPARED = prepare(SOURCE).graph


def resolve(*names: str) -> list[str]:
    return resolve_skipped_nodes(PREPARED, names, SOURCE)


def test_a_node_of_the_given_model_that_was_turned_into_another_stands_for_it() -> None:
    assert "Div_d" not in {node.name for node in PREPARED.nodes}
    [name] = resolve("Div_d")
    [node] = [node for node in PREPARED.nodes if node.name == name]
    assert (node.op_type, node.outputs[0].name) == ("Mul", "d")


def test_it_stands_for_all_nodes_that_compute_what_it_computed() -> None:
    kinds = {node.op_type for node in PREPARED.nodes if node.name in resolve("ReduceMean_y")}
    assert kinds == {"GlobalAveragePool", "Flatten"}


def test_names_and_operators_of_the_prepared_graph_stay() -> None:
    assert resolve("Relu", "Conv_c", "Relu_r") == ["Relu", "Conv_c", "Relu_r"]


def test_an_operator_that_preparation_rewrote_stands_for_its_nodes() -> None:
    assert resolve("ReduceMean", "Div") == [*resolve("ReduceMean_y"), *resolve("Div_d")]
    with pytest.raises(UsageError, match=r"cannot skip Identity: .* what follows is Relu_r"):
        resolve("Identity")


def test_what_preparation_removed_names_what_follows() -> None:
    with pytest.raises(
        UsageError, match="cannot skip Identity_e: preparation removed it or fused"
    ) as found:
        resolve("Identity_e")
    assert str(found.value).endswith("; what follows is Relu_r")


@pytest.mark.parametrize(
    ("name", "nodes"),
    [("first", {"Sigmoid", "Mul"}), ("swish", {"Sigmoid", "Mul"}), ("conv", {"Conv"})],
)
def test_a_call_of_a_function_stands_for_what_it_calls(name: str, nodes: set[str]) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
    g (float[N,3,8,8] x) => (float[N,3,8,8] y) {
        c = Conv(x, w)
        s = own.swish(c)
        y = Relu(s)
    }
    <domain: "own", opset_import: ["" : 17]>
    swish (a) => (b) {
        t = Sigmoid(a)
        b = Mul(a, t)
    }"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(onnx.numpy_helper.from_array(gaussian_array(3, 3, 1, 1), "w"))
    for node, own in zip(model.graph.node, ("conv", "first", "last"), strict=True):
        node.name = own
    source = Graph.from_proto(model)
    graph = prepare(source).graph
    skipped = resolve_skipped_nodes(graph, [name], source)
    assert {node.op_type for node in graph.nodes if node.name in skipped} == nodes


def test_other_names_are_refused() -> None:
    with pytest.raises(UsageError, match="cannot skip Div_x: the prepared graph has no such node"):
        resolve("Div_x")
