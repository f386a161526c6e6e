"""Oracle: ONNX's checker and ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from networks import build_network
from onnx import TensorProto, helper, numpy_helper

from ptq.core.errors import ModelError
from ptq.model.graph import Graph
from ptq.model.node import get_shape
from ptq.model.session.session import Session
from ptq.rewrite.prepare.prepare import prepare


def test_a_model_of_ir_version_3_with_weights_among_its_inputs_is_read_and_prepared() -> None:
    weight = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "old",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4]),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, [4, 3]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
        [numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=3)
    prepared = prepare(Graph.from_proto(model)).graph
    assert [value.name for value in prepared.inputs] == ["x"]
    x = np.ones((2, 4), np.float32)
    np.testing.assert_allclose(Session(prepared).run({"x": x})[0], x @ weight, rtol=1e-6)


def test_an_output_without_a_shape_is_read_and_found_out() -> None:
    model = build_network("y = Relu(x)")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    graph = prepare(Graph.from_proto(model)).graph
    assert get_shape(graph.outputs[0]) == (1, 3, 8, 8)


def test_a_model_of_an_old_format_with_weights_that_are_no_inputs_is_read() -> None:
    model = build_network("y = Add(x, b)", opset=8, b=np.ones(8, np.float32))
    model.ir_version = 3
    x = np.zeros((1, 3, 8, 8), np.float32)
    assert Session(Graph.from_proto(model)).run({"x": x})[0].all()
    assert model.ir_version == 3


def test_what_the_checker_finds_in_a_node_without_a_name_is_said_with_one() -> None:
    model = build_network("c = Relu(x)\ny = MaxPool<kernel_shape=[2,2], auto_pad=1>(c)")
    with pytest.raises(ModelError, match="MaxPool_y : auto_pad"):
        Graph.from_proto(model)
    assert not model.graph.node[1].name
