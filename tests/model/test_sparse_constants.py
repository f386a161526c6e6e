"""Sparse constants; ONNX Runtime, which takes them as they are, is the oracle."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from networks import build_network, random_feeds
from onnx import helper

import ptq
from ptq.core.errors import ModelError
from ptq.model.graph import Graph
from ptq.model.proto.sparse_constants import to_dense
from ptq.model.session.session import Session

SHAPE = (4, 3, 3, 3)
LINEAR = np.array([0, 5, 50, 107])
PLACES = np.array(np.unravel_index(LINEAR, SHAPE)).T


def sparse(positions: np.ndarray, shape: tuple[int, ...] = SHAPE) -> onnx.SparseTensorProto:
    return helper.make_sparse_tensor(
        helper.make_tensor("w", 1, [4], [1.0, -2.0, 3.0, 0.5]),
        helper.make_tensor("places", 7, positions.shape, positions.ravel()),
        shape,
    )


def convolution(tensor: onnx.SparseTensorProto, *, node: bool = False) -> onnx.ModelProto:
    model = build_network("c = Conv(x, w)\ny = Relu(c)", w=np.zeros(SHAPE, np.float32))
    model.graph.ClearField("initializer")
    if node:
        model.graph.node.insert(0, helper.make_node("Constant", [], ["w"], sparse_value=tensor))
    else:
        model.graph.sparse_initializer.append(tensor)
    return model


@pytest.mark.parametrize("positions", [LINEAR, PLACES], ids=["linear", "by axis"])
@pytest.mark.parametrize("node", [False, True], ids=["an initializer", "a node"])
def test_a_sparse_weight_is_the_dense_one(positions: np.ndarray, node: bool) -> None:
    model = convolution(sparse(positions), node=node)
    samples = random_feeds(model)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    expected = session.run(None, samples[0])[0]
    found = Session(Graph.from_proto(model)).run(samples[0])[0]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert "int8" in {row.fate for row in ptq.inspect(model).nodes}
    assert to_dense(model, "it") is not model


def test_a_model_without_sparse_tensors_is_the_same_object() -> None:
    model = build_network("y = Relu(x)")
    assert to_dense(model, "it") is model


def test_a_tensor_that_is_too_large_to_be_made_dense_is_refused_by_name() -> None:
    model = convolution(sparse(LINEAR, (2**20, 2**20, 3, 3)))
    with pytest.raises(ModelError, match="the sparse tensor w of shape"):
        ptq.inspect(model)
