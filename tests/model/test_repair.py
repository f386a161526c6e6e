"""What the front door mends. Oracles: ONNX's checker, and the integers of the same model written as it should be."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from ptq.core.errors import ModelError
from ptq.executor.executor import Executor
from ptq.model.graph import Graph
from ptq.model.node import get_shape
from ptq.model.proto.repair import repair
from ptq.model.session.session import Session
from ptq.rewrite.prepare.prepare import prepare
from ptq.verification.lint import lint_graph
from ptq.verification.node_status import list_node_statuses

RNG = np.random.default_rng(0)
CONSTANTS = {
    "s": np.float32(0.02), "z": np.uint8(7), "ys": np.float32(0.05), "yz": np.uint8(90),
    "w": RNG.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8),
    "ws": np.linspace(0.002, 0.01, 4, dtype=np.float32), "wz": np.zeros(4, np.int8),
}  # fmt: skip
X = {"x": RNG.normal(1, 1, (2, 3, 6, 6)).astype(np.float32)}


def layer(opset: int) -> onnx.ModelProto:
    """A convolution between quantizers, its weights with a scale a channel."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"], name="q"),
        helper.make_node("DequantizeLinear", ["xq", "s", "z"], ["xd"], name="d"),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], name="dw", axis=0),
        helper.make_node("Conv", ["xd", "wd"], ["c"], name="conv"),
        helper.make_node("QuantizeLinear", ["c", "ys", "yz"], ["cq"], name="qy"),
        helper.make_node("DequantizeLinear", ["cq", "ys", "yz"], ["y"], name="dy"),
    ]
    graph = helper.make_graph(
        nodes,
        "layer",
        [helper.make_tensor_value_info("x", 1, ["n", 3, 6, 6])],
        [helper.make_tensor_value_info("y", 1, ["n", 4, 4, 4])],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in CONSTANTS.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def shuffled(proto: onnx.ModelProto, order: list[int]) -> onnx.ModelProto:
    nodes = [onnx.NodeProto.FromString(proto.graph.node[i].SerializeToString()) for i in order]
    proto.graph.ClearField("node")
    proto.graph.node.extend(nodes)
    return proto


def test_a_sound_model_is_the_same_object() -> None:
    proto = layer(17)
    assert repair(proto) is proto


@pytest.mark.parametrize("opset", [10, 11, 12])
def test_an_axis_before_opset_13_is_microsoft_s_quantizer(opset: int) -> None:
    old, new = Graph.from_proto(layer(opset)), Graph.from_proto(layer(13))
    expected = Executor(new).run(X, ["cq"])
    for name, found in Executor(old).run(X, ["cq"]).items():
        np.testing.assert_array_equal(found, expected[name])
    np.testing.assert_array_equal(Session(old).run(X)[0], expected["y"])
    assert list_node_statuses(old) == list_node_statuses(new)
    assert [(f.node, f.rule) for f in lint_graph(old)] == [
        (f.node, f.rule) for f in lint_graph(new)
    ]


def test_nodes_out_of_order_are_sorted_and_others_stay_where_they_are() -> None:
    proto = shuffled(layer(17), [5, 3, 2, 4, 0, 1])
    before = proto.SerializeToString()
    assert [node.name for node in repair(proto).graph.node] == ["dw", "q", "d", "conv", "qy", "dy"]
    assert proto.SerializeToString() == before
    found = Executor(Graph.from_proto(proto)).run(X)["y"]
    np.testing.assert_array_equal(found, Executor(Graph.from_proto(layer(17))).run(X)["y"])


def test_what_a_graph_inside_a_node_reads_stands_before_the_node() -> None:
    body = helper.make_graph(
        [helper.make_node("Neg", ["n"], ["m"]), helper.make_node("Neg", ["outer"], ["n"])],
        "body",
        [],
        [helper.make_tensor_value_info("m", 1, None)],
    )
    nodes = [
        helper.make_node("If", ["c"], ["y"], name="if", then_branch=body, else_branch=body),
        helper.make_node("Abs", ["x"], ["outer"], name="abs"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, [2]), helper.make_tensor_value_info("c", 9, [])],
        [helper.make_tensor_value_info("y", 1, [2])],
    )
    opsets = [helper.make_opsetid("", 17)]
    found = repair(helper.make_model(graph, opset_imports=opsets, ir_version=8))
    assert [node.name for node in found.graph.node] == ["abs", "if"]
    onnx.checker.check_model(found)


def test_inputs_left_out_at_the_end_are_not_there() -> None:
    """ONNX Runtime 1.31.1 ends the process where it fuses such a LayerNormalization between quantizers."""
    proto = layer(17)
    proto.graph.node[3].op_type = "LayerNormalization"
    proto.graph.node[3].input[:] = ["xd", "x", "", ""]
    assert repair(proto).graph.node[3].input == ["xd", "x"]
    assert proto.graph.node[3].input == ["xd", "x", "", ""]


def test_a_loop_keeps_two_inputs_without_names() -> None:
    proto = layer(17)
    proto.graph.node[3].op_type = "Loop"
    proto.graph.node[3].input[:] = ["", ""]
    assert repair(proto) is proto


def test_a_cycle_is_refused() -> None:
    proto = layer(17)
    proto.graph.node[0].input[0] = "y"
    with pytest.raises(ModelError, match="not a valid ONNX model"):
        Graph.from_proto(proto)


@pytest.mark.parametrize("given", [2, -1])
def test_a_keepdims_of_neither_0_nor_1_is_what_onnx_runtime_s_kernels_take_it_for(
    given: int,
) -> None:
    proto = helper.make_model(
        helper.make_graph(
            [helper.make_node("ReduceMax", ["x"], ["y"], axes=[1], keepdims=given)],
            "reduction",
            [helper.make_tensor_value_info("x", 1, [2, 3, 6, 6])],
            [helper.make_tensor_value_info("y", 1, None)],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    before = Session(Graph.from_proto(proto)).run(X)[0]
    assert [a.i for a in repair(proto).graph.node[0].attribute if a.name == "keepdims"] == [0]
    assert before.shape == (2, 6, 6)
    assert [a.i for a in proto.graph.node[0].attribute if a.name == "keepdims"] == [given]


@pytest.mark.parametrize(
    "imports",
    [
        [("", 17), ("", 11)],
        [("", 11), ("", 17)],
        [("ai.onnx", 11)],
        [("ai.onnx", 17), ("", 11)],
        [("", 11), ("ai.onnx", 17)],
    ],
)
def test_of_several_versions_the_last_is_meant_by_whichever_name(
    imports: list[tuple[str, int]],
) -> None:
    """Softmax means something else in opset 11 than in 17."""
    proto = helper.make_model(
        helper.make_graph(
            [helper.make_node("Softmax", ["x"], ["y"], axis=1)],
            "softmax",
            [helper.make_tensor_value_info("x", 1, [2, 3, 6, 6])],
            [helper.make_tensor_value_info("y", 1, [2, 3, 6, 6])],
        ),
        opset_imports=[helper.make_opsetid(*pair) for pair in imports],
        ir_version=8,
    )
    expected = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, X)[0]
    graph = prepare(Graph.from_proto(proto)).graph
    np.testing.assert_allclose(Session(graph).run(X)[0], expected, rtol=1e-5)
    assert len(proto.opset_import) == len(imports)


def test_an_input_that_is_an_output_keeps_its_shape() -> None:
    proto = layer(17)
    proto.graph.output.append(helper.make_tensor_value_info("x", 1, None))
    graph = Graph.from_proto(proto)
    assert [get_shape(value) for value in graph.inputs] == [(None, 3, 6, 6)]
    declared = [
        d.dim_value or d.dim_param
        for d in graph.to_proto().graph.output[1].type.tensor_type.shape.dim
    ]
    assert declared == ["n", 3, 6, 6]
    [_, returned] = Session(graph).run(X)
    np.testing.assert_array_equal(returned, X["x"])
