"""What would be quantized of a model, and what stays float and why: known before any data."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ptq.core.targets import Target
from ptq.evaluation.report import NodeRow
from ptq.model.graph import Graph
from ptq.model.node import operator
from ptq.rewrite.prepare.prepare import Prepared
from ptq.solver.partition.eligibility import eligible
from ptq.solver.solve import SKIPPED, check_skip, tensors_to_observe


@dataclass(frozen=True)
class Inspection:
    """The fate of a model's nodes.

    Attributes:
        model: Path or name.
        target: Name of the target.
        opset: The opset of the model as it is.
        changes: What preparation did.
        nodes: The prepared graph's nodes and their fates.
        observed: How many tensors calibration will observe.
    """

    model: str
    target: str
    opset: int
    changes: tuple[str, ...]
    nodes: tuple[NodeRow, ...]
    observed: int


def inspection(
    name: str, source: Graph, prepared: Prepared, target: Target, skip: Collection[str]
) -> Inspection:
    """Decide for every node of a prepared model.

    Raises:
        UsageError: A node to skip does not exist.
    """
    check_skip(prepared.graph, skip)
    fate = eligible(prepared.graph, target, dict.fromkeys(skip, SKIPPED))
    nodes = []
    for node in prepared.graph.nodes:
        key = node.name or ""
        why = fate.floats.get(key, "")
        if key in fate.fused:
            why = f"may fold into {fate.fused[key]}"
        nodes.append(NodeRow(key, operator(node), "float" if key in fate.floats else "int8", why))
    return Inspection(
        model=name,
        target=target.name,
        opset=source.opset,
        changes=prepared.changes,
        nodes=tuple(nodes),
        observed=len(tensors_to_observe(prepared.graph)),
    )
