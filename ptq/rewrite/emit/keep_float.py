"""Protection of float nodes from quantization by ONNX Runtime.

ONNX Runtime runs an operator between a DequantizeLinear and a QuantizeLinear on integers. From its basic
optimizations on it even quantizes a float constant weight there, per-tensor and by min/max, also if a Relu or Clip
follows. It also carries quantizers past data movement (all measured on 1.31.1). A Sum of one operand before the
QuantizeLinear is the identity, and hides the pattern.
"""

from __future__ import annotations

from collections.abc import Collection

from ptq.core.opspec import RUNS_ON_INTEGERS
from ptq.core.types import FLOAT32
from ptq.model.graph import Graph
from ptq.model.node import Node, Value, get_name, get_operator, get_spec, list_consumers
from ptq.model.qdq.qdq_units import match_supported_qdq_op


def prevent_ort_quantization(
    graph: Graph, floats: Collection[str], float_outputs: Collection[str]
) -> None:
    """Insert a Sum between float nodes and the quantizers behind them, in place.

    Args:
        graph: A graph with quantizers.
        floats: Names of the nodes that stay in float.
        float_outputs: Names of the nodes that read integers and return float.
    """
    sums: dict[Value, Value] = {}
    for node in graph.nodes:
        if get_operator(node) in ("MatMul", "Gemm") and node.name in floats:
            _protect_float_product(graph, node)
        if get_operator(node) != "QuantizeLinear":
            continue
        value = node.inputs[0]
        origin = _find_computing_node(value, past_activations=True)
        if value is None or origin is None or not _is_quantizable_by_ort(origin):
            continue
        if origin.name not in floats and origin.name not in float_outputs:
            continue
        if value not in sums:
            sums[value] = _insert_identity_sum(graph, value)
        node.replace_input_with(0, sums[value])


def keep_float_everywhere(graph: Graph, floats: Collection[str]) -> None:
    """Insert a Sum behind each float node that reads and writes quantized tensors, in place.

    Without it no reader of the graph knows that such a node stays in float.

    Args:
        graph: A graph with quantizers.
        floats: Names of the nodes that stay in float.
    """
    for node in graph.nodes:
        if node.name not in floats or match_supported_qdq_op(node) is None:
            continue
        for value in node.outputs:
            shielded = _insert_identity_sum(graph, value)
            for reader in list_consumers(value):
                if get_operator(reader) == "QuantizeLinear":
                    reader.replace_input_with(0, shielded)


def _insert_identity_sum(graph: Graph, value: Value) -> Value:
    return graph.insert(
        "Sum",
        [value],
        after=value.producer(),
        output=f"{get_name(value)}_shielded",
        dtype=FLOAT32,
        shape_like=value,
    )


def _protect_float_product(graph: Graph, node: Node) -> None:
    """Protect a product of two dequantized tensors, which ONNX Runtime would compute in integers for any reader."""
    origins = [_find_computing_node(value, past_activations=False) for value in node.inputs[:2]]
    first = node.inputs[0]
    if first is not None and all(
        o is not None and get_operator(o) == "DequantizeLinear" for o in origins
    ):
        node.replace_input_with(0, _insert_identity_sum(graph, first))


def _is_quantizable_by_ort(node: Node) -> bool:
    """Whether ONNX Runtime has an integer kernel for the operator and finds a DequantizeLinear before it."""
    spec = get_spec(node)
    if spec is None or not (
        get_operator(node) == "ConvTranspose" or (spec.qlinear and spec.qlinear.op)
    ):
        return False
    origins = [_find_computing_node(value, past_activations=False) for value in node.inputs]
    return any(o is not None and get_operator(o) == "DequantizeLinear" for o in origins)


def _find_computing_node(value: Value | None, *, past_activations: bool) -> Node | None:
    """The node that computes a value, found through data movement and, if asked, through activations."""
    node = value.producer() if value is not None else None
    while node is not None:
        spec = get_spec(node)
        passes = spec is not None and (
            spec.qlinear is RUNS_ON_INTEGERS or (past_activations and spec.is_activation)
        )
        before = node.inputs[0] if passes else None
        if before is None:
            break
        node = before.producer()
    return node
