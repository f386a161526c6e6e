"""The parts of a quantized graph that a runtime computes in float, cut out as graphs of their own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ptq.graph import Graph, Node, Value, consumers, name_of, operator

QUANTIZERS = ("QuantizeLinear", "DequantizeLinear")


@dataclass(frozen=True, eq=False)
class Island:
    """Float operators that touch, with the quantizers at their shores.

    Attributes:
        name: Name of its first node.
        ops: Its float operators.
        graph: The island as a model: integers in, integers out, but for the graph's own real inputs and
            outputs and for tensors that no quantizer stands on.
        inputs: Names of what it reads.
        outputs: Names of what others read of it.
    """

    name: str
    ops: tuple[str, ...]
    graph: Graph
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def islands(graph: Graph, nodes: list[Node]) -> list[Island]:
    """Cut out the islands that the nodes form.

    Nodes are joined where a real tensor runs between them, but never around an integer step: a node's
    level counts the integer steps before it, and an island has one level.
    """
    chosen = set(nodes)
    level, root = _levels(graph, chosen), {node: node for node in nodes}

    def find(node: Node) -> Node:
        while root[node] is not node:
            root[node] = root[root[node]]
            node = root[node]
        return node

    for node in nodes:
        for value in node.inputs:
            before = value.producer() if value is not None else None
            if before is not None and before in chosen and level[before] == level[node]:
                root[find(node)] = find(before)
    groups: dict[Node, list[Node]] = {}
    for node in nodes:
        groups.setdefault(find(node), []).append(node)
    return [_cut(graph, members) for members in groups.values()]


def _levels(graph: Graph, chosen: set[Node]) -> dict[Node, int]:
    level: dict[Node, int] = {}
    for node in graph.nodes:
        before = [v.producer() for v in node.inputs if v is not None]
        steps = [
            level[p]
            + (0 if p in chosen and node in chosen else int((p in chosen) != (node in chosen)))
            for p in before
            if p is not None
        ]
        level[node] = max(steps, default=0)
    return level


def _cut(graph: Graph, members: list[Node]) -> Island:
    inside = dict.fromkeys(members)
    for node in members:
        for value in node.inputs:
            before = value.producer() if value is not None else None
            if before is not None and operator(before) == "DequantizeLinear":
                inside.setdefault(before)
    shores: list[Value] = []
    for node in members:
        for value in node.outputs:
            readers = [n for n in consumers(value) if n not in inside]
            for reader in readers:
                if operator(reader) == "QuantizeLinear":
                    inside.setdefault(reader)
                    shores.append(reader.outputs[0])
            others = [n for n in readers if operator(n) != "QuantizeLinear"]
            if others or value.is_graph_output():
                shores.append(value)
    made = {v for node in inside for v in node.outputs}
    inputs = dict.fromkeys(
        name_of(v)
        for node in inside
        for v in _reads(node)
        if v not in made and not v.is_initializer()
    )
    outputs = dict.fromkeys(name_of(v) for v in shores)
    assert members[0].name
    return Island(
        name=members[0].name,
        ops=tuple(operator(node) for node in members),
        graph=graph.extracted(list(inside), list(inputs), list(outputs)),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
    )


def _reads(node: Node) -> Iterable[Value]:
    return (value for value in node.inputs if value is not None)
