"""Result of ``ptq.inspect``: which nodes will be quantized, which stay in float, and why; no data is needed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ptq.core.targets import Target
from ptq.evaluation.report import NodeRow
from ptq.model.graph import Graph
from ptq.model.node import operator_of
from ptq.rewrite.prepare.prepare import PreparedModel
from ptq.solver.partition.eligibility import assign_precision
from ptq.solver.solve import SKIPPED_REASON, check_skipped_nodes, tensors_to_observe


@dataclass(frozen=True)
class Inspection:
    """How each node of a model will be computed.

    Attributes:
        model: Path or name.
        target: Name of the target.
        opset: Opset of the original model.
        changes: Changes of the graph by preparation, a sentence each.
        nodes: Result for each node of the prepared graph.
        observed: Number of tensors that calibration will observe.
    """

    model: str
    target: str
    opset: int
    changes: tuple[str, ...]
    nodes: tuple[NodeRow, ...]
    observed: int


def build_inspection(
    name: str, source: Graph, prepared: PreparedModel, target: Target, skip: Collection[str]
) -> Inspection:
    """Decide int8 or float for every node of a prepared model.

    Raises:
        UsageError: A node to skip does not exist.
    """
    check_skipped_nodes(prepared.graph, skip)
    floats = {**prepared.float_nodes, **dict.fromkeys(skip, SKIPPED_REASON)}
    assignment = assign_precision(prepared.graph, target, floats)
    nodes = []
    for node in prepared.graph.nodes:
        key = node.name or ""
        why = assignment.float_nodes.get(key, "")
        if key in assignment.fused_activations:
            why = f"may be folded into {assignment.fused_activations[key]}"
        nodes.append(
            NodeRow(
                key, operator_of(node), "float" if key in assignment.float_nodes else "int8", why
            )
        )
    return Inspection(
        model=name,
        target=target.name,
        opset=source.opset,
        changes=prepared.describe_changes(),
        nodes=tuple(nodes),
        observed=len(tensors_to_observe(prepared.graph)),
    )
