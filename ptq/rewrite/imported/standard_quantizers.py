"""Quantizers of Microsoft's domain, or without zero point → ONNX's own quantizers with a zero point."""

from __future__ import annotations

import numpy as np

from ptq.core.opspec import MICROSOFT_PREFIX
from ptq.model.graph import Graph
from ptq.model.node import QUANTIZERS, Node, get_constant, get_onnx_operator, get_operator
from ptq.model.qdq.qdq_units import infer_implied_type
from ptq.rewrite.change import Change
from ptq.rewrite.prepare.upgrade_opset import MIN_QDQ_OPSET, upgrade_opset

_QUANTIZERS = tuple(MICROSOFT_PREFIX + kind for kind in QUANTIZERS)
_SHARED_TYPES = tuple(np.dtype(name) for name in ("int8", "uint8", "int16", "uint16", "int32"))
"""Types that ONNX's own quantizers have, those of 16 bits from opset 21 on."""


def upgrade_microsoft_opset(graph: Graph) -> list[Change]:
    """Upgrade the opset if Microsoft's quantizers have per-channel scales, in place.

    ONNX's own quantizers have them from opset 13 on.
    """
    if graph.opset < MIN_QDQ_OPSET and any(map(_is_microsoft_per_channel, graph.nodes)):
        return upgrade_opset(graph)
    return []


def use_onnx_domain(graph: Graph) -> list[Change]:
    """Put quantizers of Microsoft's domain into ONNX's domain, in place.

    Both have the same meaning. ONNX has those of 16 bits from opset 21 on; before a session runs a part of the graph,
    `ptq.rewrite.emit.allow_16_bits` moves them back.
    """
    count = 0
    for node in graph.nodes:
        kind = get_onnx_operator(node)
        if not get_operator(node).startswith(MICROSOFT_PREFIX) or kind not in QUANTIZERS:
            continue
        zero_point = get_constant(node.inputs[2]) if len(node.inputs) > 2 else None
        if zero_point is None or zero_point.dtype in _SHARED_TYPES:
            node.domain = ""
            count += 1
    return [Change("use_onnx_domain", count)] if count else []


def add_default_zero_points(graph: Graph) -> list[Change]:
    """Add zero point 0 to quantizers of 8 bits that have none, in place; QLinear operators require one."""
    count = 0
    for node in graph.nodes:
        scales = get_constant(node.inputs[1]) if len(node.inputs) > 1 else None
        if get_operator(node) not in QUANTIZERS or scales is None:
            continue
        if len(node.inputs) > 2 and node.inputs[2] is not None:
            continue
        dtype = infer_implied_type(node)
        if dtype in (np.dtype(np.int8), np.dtype(np.uint8)):
            zeros = graph.add_constant(np.zeros(scales.shape, dtype), f"{node.name}_zero_point")
            node.resize_inputs(3)
            node.replace_input_with(2, zeros)
            count += 1
    return [Change("add_default_zero_points", count)] if count else []


def _is_microsoft_per_channel(node: Node) -> bool:
    scales = get_constant(node.inputs[1]) if len(node.inputs) > 1 else None
    return get_operator(node) in _QUANTIZERS and scales is not None and scales.size > 1
