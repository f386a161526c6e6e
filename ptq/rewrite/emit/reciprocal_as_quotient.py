"""Quantized Reciprocal → 1 / x, for a runtime that computes Reciprocal wrong.

Measured with onnxruntime-qnn 2.7.0: Qualcomm's emulator takes the range of a Reciprocal's input for 1 where it is
smaller, and its results are wrong by that factor. It divides right.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ptq.core.types import QuantParams
from ptq.model.graph import Graph
from ptq.model.node import get_operator
from ptq.model.qdq.qdq_units import find_quantized_source
from ptq.rewrite.edit import replace_node
from ptq.rewrite.emit.q_dq_nodes import QuantizerBuilder


def write_reciprocals_as_quotients(
    graph: Graph, floats: Mapping[str, str], quantizers: QuantizerBuilder
) -> None:
    """Replace each quantized Reciprocal by a Div of a constant 1 in the type of its input, in place."""
    one = None
    for node in list(graph.nodes):
        source = (
            find_quantized_source(node.inputs[0]) if get_operator(node) == "Reciprocal" else None
        )
        if source is None or node.name in floats:
            continue
        if one is None:
            one = graph.add_constant(np.ones((), np.float32), "one")
        kind = source.params.qtype
        params = QuantParams.per_tensor(1 / kind.lsb_count, kind.lo, kind)
        stored = quantizers.quantize_constant(one, lambda: np.ones((), np.float32), params)
        numerator = quantizers.dequantize(*stored, params, hint="one", before=node)
        name = node.name
        quotient = graph.insert(
            "Div", [numerator, node.inputs[0]], before=node, output=f"{name}_quotient",
            shape_like=node.outputs[0],
        )  # fmt: skip
        replace_node(graph, node, quotient)
        maker = quotient.producer()
        assert maker is not None
        maker.name = name
