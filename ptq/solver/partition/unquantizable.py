"""What the statistics of a calibration rule out: tensors that no 8-bit range holds, divisors too near to zero."""

from __future__ import annotations

from collections.abc import Mapping

from ptq.core.target import Target
from ptq.core.types import INT8
from ptq.model.border_casts import find_casts_to_outputs
from ptq.model.graph import Graph
from ptq.model.node import get_name, get_node_name, get_operator
from ptq.observers import TensorStats
from ptq.observers.attention_mask import is_masked

_MIN_DIVISOR_LSB = 8
"""With a divisor below 8 LSB the rounding error, half an LSB, is more than 1/16 of the divisor."""


def find_unquantizable_tensors(graph: Graph, stats: Mapping[str, TensorStats]) -> dict[str, str]:
    """Tensors whose values no 8-bit range holds, with the reason."""
    found = {
        name: f"{name} held NaN or Inf during calibration"
        for name, observed in stats.items()
        if observed.nonfinite_count
    }
    for node in graph.nodes:
        name = (
            get_name(node.inputs[0]) if get_operator(node) == "Softmax" and node.inputs[0] else ""
        )
        if name in stats and is_masked(stats[name]):
            found[name] = (
                f"{name} is masked: too wide for 8 bits to resolve the values without the mask"
            )
    return found


def find_float_divisions(graph: Graph, target: Target) -> dict[str, str]:
    """The Div nodes of a target whose integers divide badly, with the reason to keep them float."""
    if not target.float_division:
        return {}
    reason = "LiteRT's integers make the lowest or highest value of a quotient below half an LSB"
    return {
        get_node_name(node): reason
        for node in graph.nodes
        if get_operator(node) == "Div"
        and not (
            target.integer_border
            and (node.outputs[0].is_graph_output() or find_casts_to_outputs(node.outputs[0]))
        )
    }


def find_small_divisors(graph: Graph, stats: Mapping[str, TensorStats]) -> dict[str, str]:
    """Div nodes whose divisor comes too near to zero for 8 bits, with the reason."""
    found = {}
    for node in graph.nodes:
        divisor = node.inputs[1] if get_operator(node) == "Div" else None
        observed = None if divisor is None else stats.get(get_name(divisor))
        if divisor is None or observed is None or not observed.count:
            continue
        least = max(observed.min, -observed.max, 0.0)
        lsb = (max(observed.max, 0.0) - min(observed.min, 0.0)) / INT8.lsb_count
        if least < _MIN_DIVISOR_LSB * lsb:
            found[get_node_name(node)] = (
                f"its divisor {get_name(divisor)} came within {_MIN_DIVISOR_LSB} LSB of zero"
            )
    return found
