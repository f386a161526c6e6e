"""Removal of activations whose work the requantization before them does."""

from __future__ import annotations

from ptq.core.plan import Plan
from ptq.model.graph import Graph


def fold_activations(graph: Graph, plan: Plan) -> Graph:
    """A copy of the graph without the activations that the plan folds; their inputs take the outputs' names."""
    folded = graph.copy()
    for node in folded.nodes:
        if node.name in plan.folded:
            before, after = node.inputs[0], node.outputs[0]
            assert before is not None
            folded.substitute(after, before, rename_old="folded")
            folded.remove(node)
    return folded
