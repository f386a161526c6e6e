"""A model with input shapes that are fixed, for runtimes that need them."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from ptq.model.graph import Graph


def fix_input_shapes(graph: Graph, shapes: Mapping[str, tuple[int, ...]]) -> onnx.ModelProto:
    """The model as a message with these shapes of its inputs; the shapes of all other tensors are inferred anew.

    Args:
        graph: The model.
        shapes: Shape of each input by name; inputs that are left out keep theirs.
    """
    proto = onnx.ModelProto()
    proto.CopyFrom(graph.to_proto())
    for value in proto.graph.input:
        if value.name in shapes:
            shape = value.type.tensor_type.shape
            del shape.dim[:]
            for size in shapes[value.name]:
                shape.dim.add().dim_value = size
    for value in proto.graph.output:
        value.type.tensor_type.ClearField("shape")
    del proto.graph.value_info[:]
    inferred: onnx.ModelProto = onnx.shape_inference.infer_shapes(proto)
    return inferred
