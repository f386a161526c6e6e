"""What is known before calibration: which nodes LiteRT can compute only in float, and which not at all."""

from __future__ import annotations

from ptq.core.ops import OPS
from ptq.model.graph import Graph
from ptq.model.node import Node, get_constant_shape, get_node_name, get_operator, get_spec_name
from ptq.rewrite.tflite.rows import ROWS
from ptq.rewrite.tflite.write import TfliteOptions, write_tflite


def _list_float_nodes(graph: Graph) -> dict[str, str]:
    """Nodes of a prepared float graph that LiteRT has no integer operator for, by name, each with the reason."""
    found = {}
    for node in graph.nodes:
        row = ROWS.get(get_spec_name(node))
        if row is None or get_spec_name(node) not in OPS:
            continue
        why = (
            _explain_no_integers(node)
            if row.integer is not None
            else f"no {node.op_type} on 8-bit integers"
        )
        if why:
            found[get_node_name(node)] = f"LiteRT has {why}"
    return found


def _explain_no_integers(node: Node) -> str:
    op = get_operator(node)
    weight = get_constant_shape(node.inputs[1]) if len(node.inputs) > 1 else None
    if op == "MatMul" and weight is not None and len(weight) != 2:
        return "no product with several constant matrices on 8-bit integers"
    if op == "Gemm" and weight is None:
        return "no product with a computed matrix and a bias"
    return ""


def rehearse_writing(graph: Graph, options: TfliteOptions) -> dict[str, str]:
    """Write a prepared float graph in float, to find what LiteRT does not have before any calibration.

    Returns:
        Nodes that LiteRT computes in float only, by name, each with the reason.

    Raises:
        UnsupportedError: An operator has no form in LiteRT, on integers or in float; or an input has open axes.
    """
    return {**write_tflite(graph, options, None).float_nodes, **_list_float_nodes(graph)}
