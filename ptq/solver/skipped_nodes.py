"""Nodes that the user keeps float."""

from __future__ import annotations

from collections.abc import Collection

from ptq.core.errors import UsageError
from ptq.core.option_checks import find_similar
from ptq.model.graph import Graph
from ptq.model.node import Node, get_name, get_node_name, list_consumers
from ptq.model.proto.function_calls import list_called_nodes

SKIPPED_REASON = "skipped by the user"


def resolve_skipped_nodes(graph: Graph, skip: Collection[str], source: Graph) -> list[str]:
    """The nodes or operators of a prepared graph to keep float.

    A node of the given model that the prepared graph lacks stands for the nodes that compute its outputs from other
    tensors of the given model. An operator that the prepared graph lacks stands for all its nodes in the given model.
    A node that calls a function of the model, or the function, stands for the nodes that it calls.

    Args:
        graph: The prepared graph.
        skip: Names of nodes or operators.
        source: The model before preparation.

    Raises:
        UsageError: A name is neither a node nor an operator of the prepared graph, and no node of it came from one.
    """
    known, origins, found = _list_names(graph), _Origins(graph, source), dict[str, None]()
    for name in skip:
        named = [] if name in known else [n for n in source.nodes if name in (n.name, n.op_type)]
        if not named and name not in known:
            named = list(list_called_nodes(source.model, name))
        computing = [made for node in named for made in origins.nodes_computing(node)]
        if named and not computing:
            raise UsageError(_explain_removal(named[0], origins, name))
        found.update(dict.fromkeys(computing or [name]))
    check_skipped_nodes(graph, found)
    return list(found)


def check_skipped_nodes(graph: Graph, skip: Collection[str]) -> None:
    """Check that the nodes or operators to keep float exist.

    Raises:
        UsageError: A name is neither a node nor an operator of the graph.
    """
    names = _list_names(graph)
    unknown = sorted(set(skip) - names)
    if unknown:
        similar = find_similar(unknown[0], [name for name in names if name])
        hint = f" (did you mean {similar}?)" if similar else ""
        raise UsageError(
            f"cannot skip {unknown[0]}: the prepared graph has no such node or operator{hint}; "
            "inspect the model to list them"
        )


def _list_names(graph: Graph) -> set[str]:
    return {get_node_name(node) for node in graph.nodes} | {node.op_type for node in graph.nodes}


class _Origins:
    """Which nodes of a prepared graph compute what a node of the given model computed."""

    def __init__(self, graph: Graph, source: Graph) -> None:
        self._names = {node.name for node in graph.nodes}
        self._writers = {get_name(v): node for node in graph.nodes for v in node.outputs}
        self._given = {get_name(v) for node in source.nodes for v in node.outputs}

    def nodes_computing(self, node: Node) -> list[str]:
        """Names of the prepared node of this name, or of those that compute its outputs from other given tensors."""
        if node.name in self._names:
            return [get_node_name(node)]
        ahead = [get_name(value) for value in node.outputs]
        found = dict[str, None]()
        while ahead:
            writer = self._writers.get(ahead.pop())
            if writer is None or writer.name in found:
                continue
            found[get_node_name(writer)] = None
            before = [get_name(value) for value in writer.inputs if value is not None]
            ahead += [name for name in before if name not in self._given]
        return list(found)


def _explain_removal(node: Node, origins: _Origins, name: str) -> str:
    """Why a node of the model, or its operator, cannot be skipped, with the nearest prepared nodes behind it."""
    near, ahead, visited = dict[str, None](), [node], {node}
    while ahead:
        readers = [n for value in ahead.pop(0).outputs for n in list_consumers(value)]
        for reader in readers:
            names = origins.nodes_computing(reader)
            near.update(dict.fromkeys(names))
            if not names and reader not in visited:
                visited.add(reader)
                ahead.append(reader)
    where = f"what follows is {' and '.join(near)}" if near else "inspect the model to list nodes"
    return f"cannot skip {name}: preparation removed it or fused it into another node; {where}"
