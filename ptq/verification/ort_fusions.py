"""Integer tensors that ONNX Runtime computes in float, read from its own optimized graph.

ONNX Runtime replaces DequantizeLinear → operator → QuantizeLinear by an integer kernel only if its rules allow it.
Otherwise the three nodes stay. So these tensors are computed in float:

1. outputs of a QuantizeLinear whose input does not come from a DequantizeLinear;
2. float results of a matrix product or convolution that no integer operator writes.

Of two pairs QuantizeLinear → DequantizeLinear in a row it makes one, with a scale and zero point of its own.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from ptq.core.ops import OPS
from ptq.model.graph import Graph
from ptq.model.node import (
    DEQUANTIZE_OPS,
    QUANTIZE_OPS,
    Node,
    Value,
    get_name,
    get_operator,
    list_consumers,
)
from ptq.model.proto.external_data import merge_weights
from ptq.model.proto.load import read
from ptq.model.qdq.qdq_units import read_quantizer
from ptq.model.session.session import Session

_COPYING_OPS = ("Dropout", "Identity")
"""Operators that ONNX Runtime removes before it looks for pairs of quantizers."""
_MERGED_PREFIX = "DoubleQDQRemoved_"
"""ONNX Runtime's name for the scale and zero point of a merged pair begins so."""
_MOVEMENT_OPS = ("Transpose", "Reshape", "Identity")


def find_tensors_from_float(graph: Graph) -> frozenset[str]:
    """Integer outputs of the graph that ONNX Runtime, with all optimizations, quantizes from float.

    Raises:
        ModelError: ONNX Runtime cannot load the model.
    """
    return frozenset(
        get_name(v) for v in optimize_with_ort(graph).outputs if _is_quantized_from_float(v)
    )


def find_integer_products(graph: Graph) -> frozenset[str]:
    """Float tensors that ONNX Runtime, with all optimizations, computes from products of integers.

    Raises:
        ModelError: ONNX Runtime cannot load the model.
    """
    nodes = optimize_with_ort(graph).nodes
    return frozenset(
        get_name(node.outputs[0]) for node in nodes if get_operator(node) in _INTEGER_PRODUCT_OPS
    )


def find_merged_pairs(graph: Graph) -> tuple[str, ...]:
    """Integers of each pair of quantizers that ONNX Runtime merges with the pair before it, unless they are read.

    Raises:
        ModelError: ONNX Runtime cannot load the model.
    """
    candidates = [get_name(node.outputs[0]) for node in graph.nodes if _can_be_merged(node)]
    if not candidates:
        return ()
    nodes = optimize_with_ort(graph).nodes
    left = {v.name or "" for node in nodes for v in (*node.inputs, *node.outputs) if v is not None}
    if not any(name.startswith(_MERGED_PREFIX) for name in left):
        return ()
    return tuple(name for name in candidates if name not in left)


def _can_be_merged(node: Node) -> bool:
    """Whether a QuantizeLinear and the DequantizeLinears behind it follow a pair that nothing else reads.

    Both pairs have a single scale, and zero points of one type. Nodes on which no output depends count as readers.
    """
    if get_operator(node) not in QUANTIZE_OPS:
        return False
    between = _list_dequantized_before(node)
    dequantizer = between[-1].producer() if between else None
    integers = dequantizer.inputs[0] if dequantizer is not None else None
    if dequantizer is None or integers is None:
        return False
    first, after = integers.producer(), node.outputs[0]
    readers = list_consumers(after)
    if (
        first is None
        or get_operator(first) not in QUANTIZE_OPS
        or not all(_has_one_reader(value) for value in (integers, *between))
        or not readers
        or after.is_graph_output()
        or any(get_operator(reader) not in DEQUANTIZE_OPS for reader in readers)
    ):
        return False
    pairs = read_quantizer(dequantizer, integers), read_quantizer(node, after)
    params = [q.params for q in pairs if q is not None and q.zero_point is not None]
    return (
        len(params) == len(pairs)
        and all(p.scale.size == 1 for p in params)
        and params[0] != params[1]
        and params[0].qtype == params[1].qtype
    )


def _list_dequantized_before(node: Node) -> list[Value]:
    """Real values from the node's input back to the output of a DequantizeLinear, through copies; else none."""
    values, value = list[Value](), node.inputs[0]
    while value is not None:
        values.append(value)
        writer = value.producer()
        if writer is None or get_operator(writer) in DEQUANTIZE_OPS:
            return values if writer is not None else []
        value = writer.inputs[0] if get_operator(writer) in _COPYING_OPS else None
    return []


def _has_one_reader(value: Value) -> bool:
    return len(list_consumers(value)) == 1 and not value.is_graph_output()


def optimize_with_ort(graph: Graph) -> Graph:
    """The graph that ONNX Runtime runs, with all its optimizations, on this processor.

    Raises:
        ModelError: ONNX Runtime cannot load the model.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "optimized.onnx"
        Session(graph, threads=1, save_optimized=str(path))
        return Graph(merge_weights(*read(path)))  # unchecked: it is for the runtime's own use


def _is_quantized_from_float(value: Value) -> bool:
    node = value.producer()
    while node is not None and get_operator(node) in _MOVEMENT_OPS:
        node = _find_input_producer(node)
    if node is None or get_operator(node) not in QUANTIZE_OPS:
        return False
    source = _find_input_producer(node)
    return source is not None and get_operator(source) not in DEQUANTIZE_OPS


def _find_input_producer(node: Node) -> Node | None:
    value = node.inputs[0]
    return value.producer() if value is not None else None


_INTEGER_PRODUCT_OPS = frozenset(
    spec.float_output_form.op for spec in OPS.values() if spec.float_output_form is not None
)
