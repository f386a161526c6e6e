"""Extraction of some nodes of a graph as a model of their own."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
import onnx_ir as ir
from onnx import helper

from ptq.model.node import Node, list_values_read
from ptq.model.proto import external_data


def extract_subgraph(
    model: ir.Model, nodes: Sequence[Node], inputs: Sequence[str], outputs: Sequence[str]
) -> ir.Model:
    """A model of some of the nodes, in the given order, with these inputs and outputs.

    It shares its weights with the given model.
    """
    values = {v.name: v for node in nodes for v in (*list_values_read(node), *node.outputs)}
    proto = onnx.ModelProto(ir_version=model.ir_version or 8)
    for domain, version in model.graph.opset_imports.items():
        proto.opset_import.add(domain=domain, version=version)
    proto.graph.name = "part"
    proto.graph.node.extend(map(ir.serde.serialize_node, nodes))
    proto.graph.input.extend(ir.serde.serialize_value(values[name]) for name in inputs)
    proto.graph.output.extend(ir.serde.serialize_value(values[name]) for name in outputs)
    weights = {
        name: value.const_value
        for name, value in values.items()
        if name and name not in inputs and value.is_initializer() and value.const_value is not None
    }
    for name, tensor in weights.items():
        info = helper.make_tensor_value_info(name, tensor.dtype.value, tensor.shape.numpy())
        proto.graph.input.append(info)
    return external_data.merge_weights(
        proto, external_data.DetachedWeights(weights, tuple(weights))
    )
