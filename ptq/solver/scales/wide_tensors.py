"""Tensors of 16 bits among those of 8, on targets that compute both: the pieces of normalizations.

A target whose float nodes leave the device cannot keep such pieces float
(`ptq.solver.partition.normalization_pattern`).
Each node computes in one width; where a tensor of another width arrives, it is requantized before that node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ptq.core.opspec import OutputRule
from ptq.core.target import Target
from ptq.core.types import QType, QuantParams
from ptq.model.graph import Graph
from ptq.model.node import name_of
from ptq.solver.partition.eligibility import PrecisionAssignment
from ptq.solver.partition.normalization_pattern import normalization_nodes
from ptq.solver.scales.scale_groups import ScaleGroups


def wide_target(target: Target) -> Target | None:
    """The target with its wide activations; None if it has none."""
    if target.wide_activation is None:
        return None
    return replace(target, activation=target.wide_activation)


def wide_tensors(
    graph: Graph, assignment: PrecisionAssignment, groups: ScaleGroups
) -> Mapping[str, str]:
    """Outputs of quantized pieces of normalizations, each with the node; other tensors of their groups follow.

    Args:
        graph: A prepared graph.
        assignment: Which nodes are quantized.
        groups: Which tensors share a scale.
    """
    quantized = assignment.quantized_nodes
    return {
        name_of(value): name
        for name in normalization_nodes(graph)
        if name in quantized and quantized[name].spec.output_rule is not OutputRule.NONE
        for value in quantized[name].node.outputs
        if name_of(value) in groups.values
    }


def widen_qparams(params: QuantParams, qtype: QType) -> QuantParams:
    """The parameters in a type of at least as many bits, over the same range."""
    if params.qtype == qtype:
        return params
    steps = qtype.lsb_count // params.qtype.lsb_count
    zero_point = qtype.lo + steps * (int(params.zero_point) - params.qtype.lo)
    return QuantParams.per_tensor(float(np.float32(params.scale) / steps), zero_point, qtype)
