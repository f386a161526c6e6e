"""Nodes that the user keeps float."""

from __future__ import annotations

from collections.abc import Collection

from ptq.core.errors import UsageError
from ptq.core.option_checks import find_similar
from ptq.model.graph import Graph

SKIPPED_REASON = "skipped by the user"


def check_skipped_nodes(graph: Graph, skip: Collection[str]) -> None:
    """Check that the nodes or operators to keep float exist.

    Raises:
        UsageError: A name is neither a node nor an operator of the graph.
    """
    names = {node.name for node in graph.nodes} | {node.op_type for node in graph.nodes}
    unknown = sorted(set(skip) - names)
    if unknown:
        similar = find_similar(unknown[0], [name for name in names if name])
        hint = f" (did you mean {similar}?)" if similar else ""
        raise UsageError(
            f"cannot skip {unknown[0]}: the prepared graph has no such node or operator{hint}; "
            "inspect the model to list them"
        )
