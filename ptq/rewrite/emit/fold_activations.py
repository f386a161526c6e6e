"""Takes away the activations whose work the requantization before them does."""

from __future__ import annotations

from ptq.core.plan import Plan
from ptq.model.graph import Graph


def fold_activations(graph: Graph, plan: Plan) -> Graph:
    """The graph without the activation nodes that the plan folds; their outputs' names stay."""
    folded = graph.copy()
    for node in folded.nodes:
        if node.name not in plan.folded:
            continue
        before, after = node.inputs[0], node.outputs[0]
        assert before is not None
        if after.is_graph_output():
            folded.substitute(after, before)
        else:
            name = after.name
            folded.redirect(after, before)
            folded.remove(node)
            before.name = name
            continue
        folded.remove(node)
    return folded
