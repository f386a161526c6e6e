"""ReduceMean over the spatial axes → GlobalAveragePool, with a Flatten if the axes are removed."""

from __future__ import annotations

from ptq.core.types import FLOAT16, FLOAT32
from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    get_attributes,
    get_constant,
    get_dtype,
    get_name,
    get_operator,
    get_shape,
)
from ptq.rewrite.change import Change
from ptq.rewrite.edit import replace_node

_POOLED_TYPES = (FLOAT32, FLOAT16)
"""ONNX Runtime has a ReduceMean of float64, but no GlobalAveragePool."""


def reduce_mean_to_pool(graph: Graph) -> list[Change]:
    """Replace ReduceMean over the spatial axes by GlobalAveragePool and, if needed, Flatten, in place."""
    count = 0
    for node in graph.nodes:
        x = node.inputs[0] if node.inputs else None
        if x is None or not _is_spatial_mean(node):
            continue
        keepdims = get_attributes(node).get("keepdims", 1)
        name, dtype = get_name(node.outputs[0]), get_dtype(x)
        result = graph.insert(
            "GlobalAveragePool", [x], before=node, output=f"{name}_pool", dtype=dtype
        )
        if not keepdims:
            result = graph.insert(
                "Flatten", [result], before=node, attrs={"axis": 1}, output=f"{name}_flat"
            )
        replace_node(graph, node, result)
        count += 1
    return [Change("reduce_mean_to_pool", count)] if count else []


def _is_spatial_mean(node: Node) -> bool:
    """Whether the node averages N·C·H·W over H and W, or N·C·D·H·W over D, H and W.

    N·C·L is left out, because it may be a sequence; so is an empty axis, which ONNX Runtime does not pool.
    """
    x = node.inputs[0]
    shape = None if x is None else get_shape(x)
    if shape is not None and 0 in shape:
        return False
    if get_operator(node) != "ReduceMean" or x is None or shape is None or len(shape) not in (4, 5):
        return False
    axes = get_attributes(node).get("axes")  # from opset 18 on an input
    if axes is None and len(node.inputs) > 1:
        axes = get_constant(node.inputs[1])
    if axes is None or get_dtype(x) not in _POOLED_TYPES:
        return False
    return sorted(int(a) % len(shape) for a in axes) == list(range(2, len(shape)))
