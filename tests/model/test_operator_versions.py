"""Oracle: ONNX Runtime, and the versions that ONNX's own schemas state."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from networks import build_network
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from ptq.core.errors import ModelError
from ptq.model.graph import Graph
from ptq.model.machine.ort_version import INSTALLED
from ptq.model.proto.operator_versions import (
    NEWEST_IR_VERSION,
    NEWEST_OPSET,
    find_unsupported_nodes,
    lower_to_supported,
)
from ptq.model.session.session import Session

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def _model(line: str, opset: int) -> onnx.ModelProto:
    model = build_network(line, {"x": (3, 4)}, opset=opset)
    model.ir_version = 14
    return model


def test_a_newer_opset_in_which_nothing_that_the_model_has_changed_is_lowered() -> None:
    graph = Graph.from_proto(_model("y = Relu(x)", 28))
    assert graph.opset == NEWEST_OPSET
    assert graph.to_proto().ir_version == NEWEST_IR_VERSION
    np.testing.assert_array_equal(Session(graph).run({"x": X})[0], np.maximum(X, 0))


def test_the_model_that_was_given_is_left_as_it_is() -> None:
    model = _model("y = SwiGLU(x, x)", 28)
    before = model.SerializeToString()
    Graph.from_proto(model)
    assert model.SerializeToString() == before


@pytest.mark.parametrize("line", ["y = SwiGLU(x, x)", "y = SwiGLU<alpha = 0.5>(x, x)"])
def test_an_unknown_operator_that_onnx_defines_by_others_is_decomposed(line: str) -> None:
    model = _model(line, 28)
    graph = Graph.from_proto(model)
    if INSTALLED < (1, 24):  # its function has a Cast of opset 25
        with pytest.raises(ModelError, match="does not know Cast of opset 28"):
            Session(graph)
        return
    expected = ReferenceEvaluator(model).run(None, {"x": X})[0]
    np.testing.assert_allclose(Session(graph).run({"x": X})[0], expected, rtol=1e-5, atol=1e-6)


def test_a_model_whose_shapes_contradict_each_other_is_refused_in_one_line() -> None:
    model = build_network(
        f"d = DepthToSpace<blocksize = {2**40}>(x)\ny = SwiGLU(d, d)", {"x": (1, 4, 2, 2)}, opset=17
    )
    model.opset_import[0].version, model.ir_version = 28, 14
    with pytest.raises(ModelError) as caught:
        Session(Graph.from_proto(model))
    assert "\n" not in str(caught.value)


def test_an_operator_that_onnx_cannot_decompose_is_refused_by_name() -> None:
    heads = (
        "<q_num_heads = -1, kv_num_heads = 2>"  # ONNX defines the operator for one head and more
    )
    model = _model(f"y, s = LinearAttention{heads}(x, x, x)", 27)
    assert [node.op_type for node in find_unsupported_nodes(lower_to_supported(model))] == [
        "LinearAttention"
    ]
    with pytest.raises(ModelError, match="does not know LinearAttention of opset 27"):
        Session(Graph.from_proto(model))


def test_an_operator_that_has_changed_is_refused_by_name_unless_onnx_runtime_reads_it() -> None:
    model = _model("y = Mod<fmod = 1>(x, x)", 28)
    assert [node.op_type for node in find_unsupported_nodes(lower_to_supported(model))] == ["Mod"]
    graph = Graph.from_proto(model)
    if INSTALLED >= (1, 32):
        expected = ReferenceEvaluator(model).run(None, {"x": X})[0]
        np.testing.assert_array_equal(Session(graph).run({"x": X})[0], expected)
        return
    with pytest.raises(ModelError, match=r"does not know Mod of opset 28 \(node Mod_y\)"):
        Session(graph)


def test_a_model_without_operators_of_onnx_itself_is_read() -> None:
    node = helper.make_node("Scaler", ["x"], ["y"], domain="ai.onnx.ml", offset=[1.0], scale=[2.0])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 4])
    opsets = [helper.make_opsetid("ai.onnx.ml", 3)]
    made = helper.make_graph([node], "ml", [x], [y])
    graph = Graph.from_proto(helper.make_model(made, opset_imports=opsets, ir_version=8))
    np.testing.assert_allclose(Session(graph).run({"x": X})[0], (X - 1) * 2)
