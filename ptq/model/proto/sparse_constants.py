"""Conversion of sparse constants to dense ones. All later stages work on dense tensors."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ptq.core.errors import ModelError
from ptq.model.proto.external_data import MAX_PROTO_BYTES
from ptq.model.proto.proto_walk import list_bodies, list_nodes


def to_dense(proto: onnx.ModelProto, source: str) -> onnx.ModelProto:
    """The same model without sparse tensors; the given one if it has none. ONNX's checker must accept the model.

    Raises:
        ModelError: A dense constant would exceed the size that can be written.
    """
    if not any(map(_is_sparse_constant, list_nodes(proto))) and not any(
        isinstance(body, onnx.GraphProto) and body.sparse_initializer for body in list_bodies(proto)
    ):
        return proto
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for body in list_bodies(copy):
        if isinstance(body, onnx.GraphProto):
            body.initializer.extend(
                _to_dense_tensor(tensor, source) for tensor in body.sparse_initializer
            )
            body.ClearField("sparse_initializer")
    for node in filter(_is_sparse_constant, list_nodes(copy)):
        tensor = _to_dense_tensor(node.attribute[0].sparse_tensor, source)
        node.attribute[0].CopyFrom(helper.make_attribute("value", tensor))
    return copy


def _is_sparse_constant(node: onnx.NodeProto) -> bool:
    return node.op_type == "Constant" and any(
        a.HasField("sparse_tensor") for a in node.attribute[:1]
    )


def _to_dense_tensor(tensor: onnx.SparseTensorProto, source: str) -> onnx.TensorProto:
    """Convert one tensor. Its indices are either positions in the flat tensor, or one coordinate per axis."""
    shape, name = tuple(tensor.dims), tensor.values.name
    values, positions = numpy_helper.to_array(tensor.values), numpy_helper.to_array(tensor.indices)
    if math.prod(shape) * values.itemsize > MAX_PROTO_BYTES:
        raise ModelError(
            f"{source}: the sparse tensor {name or '(nameless)'} of shape {list(shape)} is too large "
            "to convert to a dense tensor; export it as a dense initializer"
        )
    whole = np.zeros(shape, values.dtype)
    whole[np.unravel_index(positions, shape) if positions.ndim < 2 else (*positions.T,)] = values
    return numpy_helper.from_array(whole, name)
