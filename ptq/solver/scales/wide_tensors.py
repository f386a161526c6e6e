"""Tensors of 16 bits among those of 8, on targets that compute both: pieces of normalizations, and nodes asked for.

A target whose float nodes leave the device cannot keep such pieces float
(`ptq.solver.partition.normalization_pattern`).
Each node computes in one width; where a tensor of another width arrives, it is requantized before that node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ptq.core.opspec import OutputRule, Role
from ptq.core.plan import Why
from ptq.core.target import Target
from ptq.core.types import QType, QuantParams
from ptq.model.graph import Graph
from ptq.model.node import get_name, is_constant
from ptq.solver.partition.eligibility import PrecisionAssignment
from ptq.solver.partition.normalization_pattern import find_normalization_nodes
from ptq.solver.scales.scale_groups import ScaleGroups


def get_wide_target(target: Target) -> Target | None:
    """The target with its wide activations; None if it has none."""
    if target.wide_activation is None:
        return None
    return replace(target, activation=target.wide_activation)


def find_wide_tensors(
    graph: Graph, assignment: PrecisionAssignment, groups: ScaleGroups
) -> Mapping[str, str]:
    """Outputs of quantized pieces of normalizations, each with the node; other tensors of their groups follow.

    Args:
        graph: A prepared graph.
        assignment: Which nodes are quantized.
        groups: Which tensors share a scale.
    """
    nodes = assignment.quantized_nodes
    return {
        get_name(value): name
        for name in find_normalization_nodes(graph)
        if name in nodes and nodes[name].spec.output_rule is not OutputRule.NONE
        for value in nodes[name].node.outputs
        if get_name(value) in groups.values
    }


def find_requested_tensors(
    assignment: PrecisionAssignment, groups: ScaleGroups, nodes: Mapping[str, str]
) -> Mapping[str, str]:
    """Outputs of nodes that were asked for in 16 bits, and what they read from outside, each with the reason.

    What another quantized node writes has its width.

    Args:
        assignment: Which nodes are quantized.
        groups: Which tensors share a scale.
        nodes: The nodes, each with the reason.
    """
    computed = assignment.quantized_nodes
    written = {get_name(v) for quantized in computed.values() for v in quantized.node.outputs}
    found: dict[str, str] = {}
    for name, reason in nodes.items():
        quantized = computed.get(name)
        if quantized is None:
            continue
        outputs = () if quantized.spec.output_rule is OutputRule.NONE else quantized.node.outputs
        outside = [
            v for v in quantized.inputs_with_role(Role.ACTIVATION) if get_name(v) not in written
        ]
        for value in (*outputs, *outside):
            if get_name(value) in groups.values and not is_constant(value):
                found.setdefault(get_name(value), reason)
    return found


def note_width(why: Why, qtype: QType, reason: str) -> Why:
    """The reason of a scale, and why its type is wide."""
    return replace(why, detail=f"{why.detail}; {qtype.bits} bits: {reason}")


def widen_qparams(params: QuantParams, qtype: QType) -> QuantParams:
    """The parameters in a type of at least as many bits, over the same range."""
    if params.qtype == qtype:
        return params
    steps = qtype.lsb_count // params.qtype.lsb_count
    zero_point = qtype.lo + steps * (int(params.zero_point) - params.qtype.lo)
    return QuantParams.per_tensor(float(np.float32(params.scale) / steps), zero_point, qtype)
