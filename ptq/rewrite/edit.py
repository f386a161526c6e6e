"""How a tensor or a constant takes the place of another, so that the names a user knows survive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import DTypeLike, NDArray

from ptq.model.graph import Graph
from ptq.model.node import Node, Value, name_of


def replace_node(graph: Graph, node: Node, new: Value) -> None:
    """Delete a node; ``new`` stands for its first output, under that output's name, type and shape.

    Raises:
        ModelError: ``new`` is a graph input, graph output or constant, whose own name must stay.
    """
    old = node.outputs[0]
    if old.is_graph_output():
        graph.substitute(old, new)
    else:
        name = name_of(old)
        old.name = graph.unique_name(f"{name}_replaced")
        new.name, new.type, new.shape = name, old.type or new.type, old.shape or new.shape
        graph.redirect(old, new)
    graph.remove(node)


def replace_with_constant(graph: Graph, value: Value, array: NDArray[Any]) -> None:
    """Let an initializer of the same name stand for a node's output, whose value is now known."""
    name = name_of(value)
    value.name = graph.unique_name(f"{name}_computed")
    frozen = graph.add_constant(array, name)
    frozen.name = name
    graph.redirect(value, frozen)


def set_constant(graph: Graph, node: Node, index: int, array: NDArray[Any], hint: str) -> None:
    """Give a node another constant as an input, under the old name unless that has other readers.

    Args:
        graph: Where the node stands.
        node: The reader.
        index: Which of its inputs; the list of inputs grows where it is too short.
        array: The new value.
        hint: Wished name where the input has been left out so far.
    """
    old = node.inputs[index] if index < len(node.inputs) else None
    constant = graph.add_constant(array, hint if old is None else name_of(old))
    if index >= len(node.inputs):
        node.resize_inputs(index + 1)
    node.replace_input_with(index, constant)
    if old is not None and not old.uses() and not old.is_graph_output():
        name = name_of(old)
        old.name = graph.unique_name(f"{name}_replaced")
        constant.name = name


def set_attributes(node: Node, **attributes: Any) -> None:
    """Set attributes from plain values; None deletes one."""
    for name, value in attributes.items():
        if value is None:
            node.attributes.pop(name, None)
        else:
            plain = value.tolist() if isinstance(value, np.ndarray) else value
            node.attributes[name] = ir.convenience.convert_attribute(name, plain)


def initializers_to_inputs(graph: Graph, types: Mapping[str, tuple[DTypeLike, int]]) -> Graph:
    """The graph with some initializers for inputs, of a type and with so many axes of any length."""

    def change(proto: onnx.ModelProto) -> onnx.ModelProto:
        kept = [tensor for tensor in proto.graph.initializer if tensor.name not in types]
        del proto.graph.initializer[:]
        proto.graph.initializer.extend(kept)
        for name, (dtype, rank) in types.items():
            kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
            info = onnx.helper.make_tensor_value_info(name, kind, [None] * rank)
            proto.graph.input.append(info)
        return proto

    return graph.transform_proto(change)
