"""Gather of a float table → Gather of its integers, and DequantizeLinear of what it read."""

from __future__ import annotations

from functools import partial

from ptq.core.plan import Plan
from ptq.model.graph import Graph
from ptq.model.node import get_name, get_node_name, get_operator, require_constant
from ptq.rewrite.emit.q_dq_nodes import QuantizerBuilder


def read_integer_tables(graph: Graph, plan: Plan, quantizers: QuantizerBuilder) -> None:
    """Let each float Gather with parameters for its table read the integers, in place.

    The quantizer stands behind the Gather: before it, each run would make the whole table float.
    """
    for node in list(graph.nodes):
        params = plan.operands.get((get_node_name(node), 0))
        # an edited plan may keep parameters of other nodes that it leaves in float; they mean nothing
        if params is None or node.name not in plan.floats or get_operator(node) != "Gather":
            continue
        table, rows = node.inputs[0], node.outputs[0]
        assert table is not None
        read = partial(require_constant, table)
        integers, scale, zero_point = quantizers.quantize_constant(table, read, params)
        node.replace_input_with(0, integers)
        # the columns are the last axis of what a Gather of rows returns
        last = -1 if rows.shape is None else len(rows.shape) - 1
        real = quantizers.dequantize(
            rows, scale, zero_point, params, hint=get_name(rows), after=node, axis=last
        )
        reader = real.producer()
        assert reader is not None
        graph.substitute(rows, real, keep=[reader])
        rows.type = integers.type
