"""Basic edits: one tensor or constant replaces another, and the names that the user knows stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from ptq.model.graph import Graph
from ptq.model.node import Node, Value, get_dtype, get_name

_OPSET_OF_ALLOWZERO = 14
"""Before it, a Reshape has no form in which a size of 0 is a length of 0."""


def replace_node(graph: Graph, node: Node, new: Value) -> None:
    """Delete a node; ``new`` replaces its first output and takes that output's name, type and shape.

    Raises:
        ModelError: The output is a graph output, and ``new`` is a graph input, graph output or constant.
    """
    old = node.outputs[0]
    if not old.is_graph_output():
        new.type, new.shape = old.type or new.type, old.shape or new.shape
    graph.substitute(old, new, rename_old="replaced")
    graph.remove(node)


def keep_node_name(node: Node, made: Value) -> None:
    """Let the node that computes a value take the name of a removed node, which the user knows."""
    maker = made.producer()
    assert maker is not None
    maker.name = node.name


def replace_with_constant(graph: Graph, value: Value, array: NDArray[Any]) -> None:
    """Replace a node's output, which is no graph output, by an initializer of the same name."""
    constant = graph.add_constant(array, get_name(value))
    graph.substitute(value, constant, rename_old="computed")


def insert_reshape(
    graph: Graph,
    value: Value,
    target: Value | Sequence[int],
    before: Node,
    name: str = "",
    *,
    allow_zero: bool = False,
) -> Value:
    """Insert a Reshape, and return its output.

    Args:
        graph: The graph of the node.
        value: What to reshape.
        target: The sizes, with 0 for the length of the same axis and −1 for what remains; or a tensor of them.
        before: The node that the Reshape precedes.
        name: What to name the new values after; the value itself if empty.
        allow_zero: Whether a size of 0 is a length, where the opset has this.
    """
    name = name or get_name(value)
    if not isinstance(target, Value):
        target = graph.add_constant(np.array(target, np.int64), f"{name}_sizes")
    return graph.insert(
        "Reshape",
        [value, target],
        before=before,
        attrs={"allowzero": 1} if allow_zero and graph.opset >= _OPSET_OF_ALLOWZERO else {},
        output=f"{name}_reshaped",
        dtype=get_dtype(value),
    )


def set_constant(
    graph: Graph, node: Node, index: int, array: NDArray[Any] | ir.LazyTensor, hint: str
) -> None:
    """Replace a node's constant input; the name stays unless the old constant has other readers.

    Args:
        graph: The graph of the node.
        node: The reader.
        index: Position of the input; the list of inputs grows if it is too short.
        array: The new value.
        hint: Suggested name, used if the input was absent.
    """
    old = node.inputs[index] if index < len(node.inputs) else None
    constant = graph.add_constant(array, hint if old is None else get_name(old))
    if index >= len(node.inputs):
        node.resize_inputs(index + 1)
    node.replace_input_with(index, constant)
    if old is not None and not old.uses() and not old.is_graph_output():
        graph.substitute(old, constant, rename_old="replaced")


def set_attributes(node: Node, **attributes: Any) -> None:
    """Set attributes from plain values; None deletes an attribute."""
    for name, value in attributes.items():
        if value is None:
            node.attributes.pop(name, None)
        else:
            plain = value.tolist() if isinstance(value, np.ndarray) else value
            node.attributes[name] = ir.convenience.convert_attribute(name, plain)
