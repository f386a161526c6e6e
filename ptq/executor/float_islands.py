"""Float islands: parts of a quantized graph that a runtime computes in float, as models of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ptq.core.union_find import UnionFind
from ptq.model.graph import Graph
from ptq.model.node import Node, Value, get_name, get_operator, list_values_read
from ptq.rewrite.emit.allow_16_bits import allow_16_bits


@dataclass(frozen=True, eq=False)
class FloatIsland:
    """Connected float operators, with the quantizers around them.

    Attributes:
        name: Name of its first node.
        ops: Its float operators.
        graph: The island as a model. Inputs and outputs are integers, except float inputs and outputs of the whole
            graph and tensors without a quantizer.
        inputs: Names of its inputs.
        outputs: Names of its outputs.
    """

    name: str
    ops: tuple[str, ...]
    graph: Graph
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def extract_islands(graph: Graph, nodes: list[Node]) -> list[FloatIsland]:
    """Extract the float islands that the nodes form.

    Nodes with a float tensor between them belong to one island, unless an integer step lies on another path between
    them. So each node has a level: the number of changes between integer steps and float nodes before it. All nodes
    of an island have one level.
    """
    chosen = set(nodes)
    level, islands = _compute_step_levels(graph, chosen), UnionFind(nodes)
    for node in nodes:
        for value in list_values_read(node):
            before = value.producer()
            if before is not None and before in chosen and level[before] == level[node]:
                islands.union(before, node)
    readers = _map_readers(graph)
    return [_extract_island(graph, members, readers) for members in islands.list_groups()]


def _map_readers(graph: Graph) -> dict[Value, list[Node]]:
    """Return the nodes of the main graph that read each value, directly or in a sub-graph, in order."""
    readers: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        for value in list_values_read(node):
            readers.setdefault(value, []).append(node)
    return readers


def _compute_step_levels(graph: Graph, chosen: set[Node]) -> dict[Node, int]:
    level: dict[Node, int] = {}
    for node in graph.nodes:
        before = [value.producer() for value in list_values_read(node)]
        steps = [level[p] + int((p in chosen) != (node in chosen)) for p in before if p is not None]
        level[node] = max(steps, default=0)
    return level


def _extract_island(
    graph: Graph, members: list[Node], readers: Mapping[Value, list[Node]]
) -> FloatIsland:
    producers = [value.producer() for node in members for value in list_values_read(node)]
    dequantizers = dict.fromkeys(
        node for node in producers if node is not None and get_operator(node) == "DequantizeLinear"
    )
    quantizers: dict[Node, None] = {}
    written: list[Value] = []
    own = set(members)
    for value in (value for node in members for value in node.outputs):
        outside = [node for node in readers.get(value, ()) if node not in own]
        leaving = [node for node in outside if get_operator(node) == "QuantizeLinear"]
        quantizers.update(dict.fromkeys(leaving))
        written += [node.outputs[0] for node in leaving]
        if len(leaving) < len(outside) or value.is_graph_output():
            written.append(value)
    inside = [*dequantizers, *members, *quantizers]
    made = {v for node in inside for v in node.outputs}
    inputs = dict.fromkeys(
        get_name(v)
        for node in inside
        for v in list_values_read(node)
        if v not in made and not v.is_initializer()
    )
    outputs = dict.fromkeys(get_name(v) for v in written)
    assert members[0].name
    part = graph.extract(inside, list(inputs), list(outputs))
    allow_16_bits(part)
    return FloatIsland(
        name=members[0].name,
        ops=tuple(get_operator(node) for node in members),
        graph=part,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
    )
