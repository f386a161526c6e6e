"""Oracle: ONNX's checker and ONNX Runtime."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from ptq.graph import Graph
from ptq.rewrite.prepare import prepare
from ptq.session import Session


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
