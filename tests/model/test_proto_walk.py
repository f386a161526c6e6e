"""What a message holds at any depth; the names that the model was built with are the oracle."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ptq.model.proto.proto_walk import list_bodies, list_nodes, list_tensors


def _tensor(name: str) -> onnx.TensorProto:
    return numpy_helper.from_array(np.zeros(2, np.float32), name)


def _constant(name: str) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], name=name, value=_tensor(f"{name} value"))


def _graph(name: str, *content: onnx.NodeProto) -> onnx.GraphProto:
    return helper.make_graph([*content], name, [], [], [_tensor(f"{name} weight")])


def _nested() -> onnx.ModelProto:
    """An If in an If, a function with an If, and a node with a list of graphs and one of tensors."""
    inner = helper.make_node("If", ["c"], ["i"], name="inner", then_branch=_graph("deep"))
    outer = helper.make_node(
        "If", ["c"], ["o"], name="outer", then_branch=_graph("shallow", inner, _constant("k"))
    )
    lists = helper.make_node(
        "Lists",
        [],
        ["l"],
        name="lists",
        domain="own",
        graphs=[_graph("first"), _graph("second")],
        tensors=[_tensor("one"), _tensor("two")],
    )
    called = helper.make_node("If", ["c"], ["f"], name="called", else_branch=_graph("branch"))
    function = helper.make_function(
        "own", "F", ["c"], ["f"], [called, _constant("kf")], [helper.make_opsetid("", 17)]
    )
    return helper.make_model(_graph("main", outer, lists), functions=[function])


def test_inner_graphs_come_before_those_that_hold_them() -> None:
    found = [body.name for body in list_bodies(_nested())]
    assert found == ["deep", "shallow", "first", "second", "main", "branch", "F"]


def test_every_node_is_found_once() -> None:
    found = sorted(node.name for node in list_nodes(_nested()))
    assert found == ["called", "inner", "k", "kf", "lists", "outer"]


def test_every_tensor_is_found_once() -> None:
    weights = [
        f"{name} weight" for name in ("deep", "shallow", "first", "second", "main", "branch")
    ]
    expected = sorted([*weights, "k value", "kf value", "one", "two"])
    assert sorted(tensor.name for tensor in list_tensors(_nested())) == expected
