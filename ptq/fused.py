"""Which integer tensors of a graph does ONNX Runtime compute in float? Read from its own optimized graph.

ONNX Runtime replaces DequantizeLinear → operator → QuantizeLinear by an integer kernel only where its rules allow;
elsewhere the three nodes stay. A tensor that a QuantizeLinear still writes, and not from a DequantizeLinear, is one
of those.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from ptq.graph import Graph
from ptq.nodes import Node, Value, name_of, operator
from ptq.session import Session

_FOLLOWED = ("Transpose", "Reshape", "Identity")


def float_tensors(graph: Graph) -> frozenset[str]:
    """The integer tensors among the graph's outputs that ONNX Runtime, all optimizations on, quantizes from float.

    Raises:
        ModelError: ONNX Runtime does not take the model.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "optimized.onnx"
        Session(graph, threads=1, save_optimized=str(path))
        optimized = Graph.load_as_it_is(path)
    return frozenset(name_of(value) for value in optimized.outputs if _from_float(value))


def _from_float(value: Value) -> bool:
    node = value.producer()
    while node is not None and operator(node) in _FOLLOWED:
        node = _maker(node)
    if node is None or operator(node) not in _QUANTIZE:
        return False
    source = _maker(node)
    return source is not None and operator(source) not in _DEQUANTIZE


def _maker(node: Node) -> Node | None:
    value = node.inputs[0]
    return value.producer() if value is not None else None


_QUANTIZE = ("QuantizeLinear", "com.microsoft::QuantizeLinear")
_DEQUANTIZE = ("DequantizeLinear", "com.microsoft::DequantizeLinear")
