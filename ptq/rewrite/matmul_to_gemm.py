"""Which MatMul nodes are dense layers, one Gemm with its bias?"""

from __future__ import annotations

from ptq.graph import Graph
from ptq.nodes import FLOAT_TYPES, Node, constant, consumers, dtype_of, name_of, operator, shape_of
from ptq.rewrite.counted import counted
from ptq.rewrite.replace import replace


def matmul_to_gemm(graph: Graph) -> list[str]:
    """Turn MatMul of a 2-d tensor and a constant, and the Add of a bias, into Gemm; in place.

    Before a BatchNormalization the MatMul alone becomes a Gemm, which can take its offset.

    Returns:
        One sentence if something changed.
    """
    turned = 0
    for node in graph.nodes:
        if not _is_dense(node):
            continue
        y = node.outputs[0]
        readers = [] if y.is_graph_output() else consumers(y)
        if len(readers) != 1 or readers[0].graph is not node.graph:
            continue
        after, weight = readers[0], constant(node.inputs[1])
        assert weight is not None
        bias = next((v for v in after.inputs if v is not y), None)
        shape = None if constant(bias) is None or bias is None else shape_of(bias)
        if operator(after) == "Add" and shape in ((weight.shape[1],), (1, weight.shape[1])):
            last, inputs = after, [*node.inputs, bias]
        elif operator(after) == "BatchNormalization":
            last, inputs = node, [*node.inputs]
        else:
            continue
        gemm = graph.insert(
            "Gemm",
            inputs,
            before=node,
            output=f"{name_of(last.outputs[0])}_gemm",
            dtype=dtype_of(y),
        )
        replace(graph, last, gemm)
        if last is not node:
            graph.remove(node)
        turned += 1
    return [f"turned {counted(turned, 'MatMul node')} into Gemm"] if turned else []


def _is_dense(node: Node) -> bool:
    if operator(node) != "MatMul" or node.inputs[0] is None:
        return False
    shape, weight = shape_of(node.inputs[0]), constant(node.inputs[1])
    two = shape is not None and len(shape) == 2 and weight is not None and weight.ndim == 2
    return two and weight is not None and weight.dtype in FLOAT_TYPES
