"""A model serialized in pieces: protobuf's bytes, without a copy of the weights."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from networks import build_network
from onnx import TensorProto, helper, numpy_helper

from ptq.model.graph import Graph
from ptq.model.proto import external_data, serialize

WEIGHT = np.random.default_rng(0).standard_normal((300, 200)).astype(np.float32)


def build_graph(order: str = "C") -> Graph:
    """A graph with two large weights, one of them int4, and small constants around them."""
    tensors = [
        numpy_helper.from_array(np.arange(3, dtype=np.int64), "small"),
        numpy_helper.from_array(WEIGHT, "large"),
        helper.make_tensor("nibbles", TensorProto.INT4, (400, 400), [1, -3] * 80_000),
        numpy_helper.from_array(np.float32(2.5), "scalar"),
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "large"], ["product"], "product_node"),
        helper.make_node("Mul", ["product", "scalar"], ["scaled"], "scaled_node"),
        helper.make_node("Reshape", ["small", "shape"], ["r"], "reshape_node"),
        helper.make_node("Identity", ["nibbles"], ["n"], "identity_node"),
    ]
    tensors.append(numpy_helper.from_array(np.array([3, 1]), "shape"))
    graph = helper.make_graph(
        nodes,
        "main",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 300])],
        [
            helper.make_tensor_value_info("scaled", TensorProto.FLOAT, ["n", 200]),
            helper.make_tensor_value_info("r", TensorProto.INT64, [3, 1]),
            helper.make_tensor_value_info("n", TensorProto.INT4, [400, 400]),
        ],
        tensors,
        doc_string="a graph",
    )
    proto = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])
    proto.doc_string, proto.producer_name = "a model", "test"
    made = Graph.from_proto(proto)
    made.metadata["key"] = "value"
    value = made.model.graph.initializers["large"]
    value.const_value = ir.Tensor(
        np.asarray(WEIGHT, order=order), name="large", doc_string="a weight"
    )
    value.const_value.metadata_props["of"] = "the weight"
    return made


@pytest.mark.parametrize("order", ["C", "F"])
def test_pieces_are_the_bytes_that_protobuf_writes(order: str) -> None:
    graph = build_graph(order)
    whole = graph.to_proto().SerializeToString(deterministic=True)
    assert graph.to_bytes() == whole
    assert serialize.count_serialized_bytes(graph.model) == len(whole)
    loaded = onnx.load_from_string(graph.to_bytes())
    [weight] = (t for t in loaded.graph.initializer if t.name == "large")
    np.testing.assert_array_equal(numpy_helper.to_array(weight), WEIGHT)


def test_large_weights_are_views_of_their_memory() -> None:
    graph = build_graph()
    weight = graph.model.graph.initializers["large"].const_value
    assert weight is not None
    pieces = serialize.to_pieces(graph.model)
    [view] = (piece for piece in pieces if len(piece) == WEIGHT.nbytes)
    assert np.shares_memory(np.frombuffer(view, np.uint8), weight.numpy())


def test_a_digest_is_computed_once_for_the_same_weights(monkeypatch):
    weight = np.arange(2**16, dtype=np.float32).reshape(256, 256)
    graph = Graph.from_proto(build_network("y = MatMul(x, w)", {"x": (1, 256)}, w=weight))
    first = graph.digest()
    monkeypatch.setattr(external_data, "to_little_endian_bytes", None)  # nothing is read again
    assert graph.copy().digest() == first


def test_the_digest_of_other_weights_in_the_same_graph_is_another():
    weight = np.arange(2**16, dtype=np.float32).reshape(256, 256)
    graph = Graph.from_proto(build_network("y = MatMul(x, w)", {"x": (1, 256)}, w=weight))
    other = Graph.from_proto(build_network("y = MatMul(x, w)", {"x": (1, 256)}, w=weight + 1))
    again = Graph.from_proto(build_network("y = MatMul(x, w)", {"x": (1, 256)}, w=weight))
    assert graph.digest() != other.digest()
    assert graph.digest() == again.digest()
