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
from ptq.model.qdq.qdq_units import find_quantized_source, read_quantizer
from ptq.model.session.session import Session

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
    """Integers of each pair of quantizers that ONNX Runtime merges with the pair before it, unless they are read."""
    return tuple(get_name(node.outputs[0]) for node in graph.nodes if _is_merged(node))


def _is_merged(node: Node) -> bool:
    """Whether a QuantizeLinear is the second of a chain of one type, which ends in a DequantizeLinear."""
    real = node.inputs[0]
    if get_operator(node) != "QuantizeLinear" or real is None:
        return False
    before, after = find_quantized_source(real), read_quantizer(node, node.outputs[0])
    writer = before.integers.producer() if before is not None else None
    if (
        before is None
        or after is None
        or writer is None
        or get_operator(writer) not in QUANTIZE_OPS
    ):
        return False
    chain = (before.integers, real, after.integers)
    is_alone = all(len(list_consumers(v)) == 1 and not v.is_graph_output() for v in chain)
    return is_alone and before.params != after.params and before.params.qtype == after.params.qtype


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
