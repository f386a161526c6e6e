"""Evaluation of one node with constant inputs by ONNX's reference evaluator.

Results that are too large to store as weights are not computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray

from ptq.model.node import (
    Node,
    get_attributes,
    get_constant,
    get_dtype,
    get_operator,
    get_shape,
)
from ptq.model.random_nodes import is_random

MAX_BYTES = 64 * 2**20
_QUANTIZERS = frozenset({"DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear"})
"""They are never folded: their constant inputs stay in the graph."""
_MISJUDGED: Mapping[str, Callable[[Node], bool]] = {
    "AveragePool": lambda node: "auto_pad" in node.attributes,
    "GRU": lambda node: _has_input(node, 4),
    "LRN": lambda node: True,
    "LSTM": lambda node: "clip" in node.attributes or _has_input(node, 4),
    "LpNormalization": lambda node: get_attributes(node).get("p", 2) != 2,
    "LpPool": lambda node: "auto_pad" in node.attributes,
    "MaxPool": lambda node: "auto_pad" in node.attributes,
    "RNN": lambda node: _has_input(node, 4),
    "Resize": lambda node: _has_input(node, 2),
    "Slice": lambda node: _has_start_before_its_data(node),
    "Swish": lambda node: True,
}
"""The forms that the reference evaluator computes otherwise than the specification and ONNX Runtime: `auto_pad`,
`sequence_lens`, `clip`, sums of magnitudes, and lengths by `scales`, which it rounds in float64."""


def evaluate_node(node: Node, opset: int) -> list[NDArray[Any]] | None:
    """The values of the node's outputs; None if they are not constant, too large or cannot be computed.

    Results are too large if they take more than 64 MB and more than all inputs together.
    """
    inputs = [v for v in node.inputs if v is not None]
    if not inputs or not all(v.is_initializer() for v in inputs) or not _can_fold(node):
        return None
    arrays = [a for a in map(get_constant, inputs) if a is not None]
    if len(arrays) < len(inputs):
        return None
    limit = max(MAX_BYTES, sum(a.nbytes for a in arrays))
    if _estimate_bytes(node, arrays) > limit:
        return None
    feeds = {str(v.name): a for v, a in zip(inputs, arrays, strict=True)}
    results = _run(node, feeds, opset)
    if results is None or sum(a.nbytes for a in results) > limit:
        return None
    return results


def is_repeatable(node: Node) -> bool:
    """Whether a node computes the same from the same inputs each time, as far as its operator shows."""
    graphs = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
    return (
        "::" not in get_operator(node)
        and not is_random(node)
        and not any(a.type in graphs for a in node.attributes.values())
    )


def _can_fold(node: Node) -> bool:
    is_misjudged = _MISJUDGED.get(node.op_type)
    return (
        is_repeatable(node)
        and node.op_type not in _QUANTIZERS
        and not (is_misjudged is not None and is_misjudged(node))
        and not any(v.is_graph_output() for v in node.outputs)
    )


def _has_input(node: Node, position: int) -> bool:
    return len(node.inputs) > position and node.inputs[position] is not None


def _has_start_before_its_data(node: Node) -> bool:
    """Whether a Slice may read backwards from before its data; the reference evaluator does not clamp its start."""
    if len(node.inputs) < 5:
        return False
    data, starts, _, _, steps = map(get_constant, node.inputs)
    if data is None or starts is None or steps is None:
        return False
    return bool((steps < 0).any() and (starts < -min(data.shape, default=0)).any())


def _estimate_bytes(node: Node, inputs: Sequence[NDArray[Any]]) -> int:
    """The size of the result, if it follows from shapes and inputs without running the node; else 0."""
    shape = get_shape(node.outputs[0])
    dtype = get_dtype(node.outputs[0])
    if shape is not None and None not in shape:
        return prod(d for d in shape if d is not None) * (4 if dtype is None else dtype.itemsize)
    match node.op_type:
        case "ConstantOfShape":
            return 4 * _count_elements(inputs[0])
        case "Expand" | "Tile":
            return inputs[0].nbytes * _count_elements(inputs[1])
    return 0


def _count_elements(sizes: NDArray[Any]) -> int:
    return prod(int(size) for size in sizes.reshape(-1))


def _run(node: Node, feeds: dict[str, NDArray[Any]], opset: int) -> list[NDArray[Any]] | None:
    # The import takes 0.3 s, and many models have nothing to fold.
    from onnx.reference import ReferenceEvaluator

    untyped = onnx.TypeProto()
    graph = onnx.helper.make_graph(
        [ir.serde.serialize_node(node)],
        "constant",
        [onnx.helper.make_value_info(name, untyped) for name in feeds],
        [onnx.helper.make_value_info(str(v.name), untyped) for v in node.outputs if v.name],
    )
    try:
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(graph, opsets={"": opset}).run(None, feeds)
        results = [np.asarray(r) if isinstance(r, np.generic) else r for r in results]
    except Exception:  # a node that the reference cannot run stays in the graph
        return None
    for value, result in zip((v for v in node.outputs if v.name), results, strict=True):
        dtype, shape = get_dtype(value), get_shape(value)
        if not isinstance(result, np.ndarray) or result.dtype.kind not in "biuf":
            return None  # a sequence or strings
        if dtype is not None and dtype != result.dtype:
            return None
        if shape is not None and (
            len(shape) != result.ndim
            or any(d not in (None, s) for d, s in zip(shape, result.shape, strict=True))
        ):
            return None
    return results
