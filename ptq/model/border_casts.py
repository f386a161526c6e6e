"""Casts at the border of a float16 or float64 model that computes in float32: what stands behind them."""

from __future__ import annotations

import numpy as np

from ptq.core.types import FLOAT16, FLOAT32
from ptq.model.node import Node, Value, get_dtype, get_operator, list_consumers

_OTHER_FLOATS = (FLOAT16, np.dtype(np.float64))


def find_input_behind_cast(value: Value) -> Value | None:
    """The model's input that a Cast to float32 makes a value of; None if none does."""
    node = value.producer()
    if node is None or not _is_float_cast(node):
        return None
    source = node.inputs[0]
    return source if source is not None and source.is_graph_input() else None


def find_casts_to_outputs(value: Value) -> list[Node]:
    """The Casts of a float32 value to outputs of the model that are float16 or float64."""
    return [
        node
        for node in list_consumers(value)
        if _is_float_cast(node) and node.outputs[0].is_graph_output()
    ]


def _is_float_cast(node: Node) -> bool:
    """Whether a node casts float32 to another floating-point type, or such a type to float32."""
    if get_operator(node) != "Cast" or node.inputs[0] is None:
        return False
    before, after = get_dtype(node.inputs[0]), get_dtype(node.outputs[0])
    return (before == FLOAT32 and after in _OTHER_FLOATS) or (
        before in _OTHER_FLOATS and after == FLOAT32
    )
