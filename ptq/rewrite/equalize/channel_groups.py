"""Which channels may be multiplied by a factor, in all tensors alike, without changing the function?

A layer's output channels may be multiplied by anything that those who read them divide by, and what stands between
hands on: f(a x) = a f(x) for a > 0. So does x · g(x), where the gate g reads what is divided again. A sum ties its
summands' channels to each other, and so all of a residual stream; joining, parting and flattening tensors only gives
the channels other places. So each channel of each tensor gets a number, the same where it must have the same factor,
and 0 where it must stay as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from ptq.model.graph import Graph
from ptq.model.layer_weights import input_channel_view, layer_channels, output_channel_view
from ptq.model.node import (
    Node,
    Value,
    attributes_of,
    constant_of,
    consumers_of,
    name_of,
    operator_of,
    shape_of,
    values_read_by,
)
from ptq.rewrite.equalize.layer_pairs import HOMOGENEOUS, clip_bounds, is_bounded
from ptq.rewrite.equalize.per_channel_ops import is_cheap_as_depthwise
from ptq.rewrite.equalize.union_find import GroupNumbers, UnionFind

FIXED = 0
GATED_OPS = frozenset(["HardSwish"])
"""x times a gate: f(x) = x · g(x)."""
_VIEW_OPS = frozenset(["Flatten", "Reshape", "Squeeze", "Unsqueeze"])
_CHANNEL_PRESERVING_OPS = HOMOGENEOUS | {
    "Clip",
    "Dropout",
    "Identity",
    "Pad",
    "ReduceMax",
    "ReduceMean",
    "Resize",
}


@dataclass(frozen=True, eq=False)
class ChannelGroups:
    """The numbers of a graph's channels, along axis 1.

    Attributes:
        numbers: By tensor; those whose channels must all stay as they are, are left out.
        count: How many numbers there are, that of what must stay included.
        writers: Layers, by the tensor whose channels they write.
        readers: Layers with the tensor that they read.
        summands: Nodes with the position of a constant that they add.
        bounded: Tensors between bounds that a Clip sets, with these.
        gated: Nodes that hand on a factor where their gate reads what is divided by it.
        shores: Tensors between integers and float of which some nodes alone see the factors, with these.
        landed: Those of them that float nodes write.
    """

    groups: dict[str, GroupNumbers]
    group_count: int
    writers: list[Node]
    readers: list[Node]
    summands: list[tuple[Node, int]]
    clip_bounds: dict[str, tuple[float, float]]
    gated_nodes: list[Node]
    boundaries: Mapping[str, Collection[str]]
    float_written: list[str]

    def input_groups(self, node: Node) -> GroupNumbers:
        """The numbers of the channels that a layer reads."""
        value = node.inputs[0]
        assert value is not None
        return self.groups[name_of(value)]


def group_channels(
    graph: Graph,
    closed: Collection[str] = (),
    shores: Mapping[str, Collection[str]] | None = None,
) -> ChannelGroups:
    """Number the channels of a prepared graph, shapes inferred.

    Args:
        graph: The graph.
        closed: Names of nodes with a gate that shall hand on no factor all the same; they leave the other numbers
            of what the graph is multiplied by as they are where all those that they read are 1.
        shores: Tensors, with the names of the nodes that see their factors; to the others quantizers give what the
            channels are without.
    """
    walk = _ChannelWalk(closed, shores or {})
    for node in graph.nodes:
        walk.visit(node)
    walk.fix_channels(value for value in graph.outputs if name_of(value) not in (shores or {}))
    return walk.to_channel_groups()


class _ChannelWalk:
    """Goes through the nodes in order and gives numbers."""

    def __init__(self, closed: Collection[str], shores: Mapping[str, Collection[str]]) -> None:
        self._closed, self._boundaries = closed, shores
        self._float_written: list[Value] = []
        self._gated: list[Node] = []
        self._union_find = UnionFind()
        self._groups: dict[Value, GroupNumbers] = {}
        self._writers: list[Node] = []
        self._readers: list[Node] = []
        self._summands: list[tuple[Node, int]] = []
        self._bounded: dict[str, tuple[float, float]] = {}

    def visit(self, node: Node) -> None:
        """Number what a node puts out; what it reads stays as it is where it hands on no factor."""
        hidden = {
            v: self._groups.pop(v)
            for v in values_read_by(node)
            if v in self._groups and self._is_unscaled_for(v, node)
        }
        self._assign_groups(node)
        self._groups |= hidden

    def _is_unscaled_for(self, value: Value, node: Node) -> bool:
        """Whether the node sees a tensor without its factors."""
        seeing = self._boundaries.get(name_of(value))
        return seeing is not None and node.name not in seeing

    def _assign_groups(self, node: Node) -> None:
        if any(reader.graph is not node.graph for v in node.outputs for reader in consumers_of(v)):
            self.fix_channels(values_read_by(node))
            return
        if len(node.outputs) == 1 and self._is_unscaled_for(node.outputs[0], node):
            self.fix_channels(values_read_by(node))
            self._add_float_written(node.outputs[0])
            return
        if layer_channels(node) is not None:
            self._visit_layer(node)
            return
        handed = self._output_groups(node) if len(node.outputs) == 1 else None
        if handed is None:
            self.fix_channels(values_read_by(node))
            return
        if operator_of(node) == "Clip":
            self._bounded[name_of(node.outputs[0])] = clip_bounds(node)
        self._groups[node.outputs[0]] = handed

    def fix_channels(self, values: Iterable[Value]) -> None:
        """Let the values' channels stay as they are."""
        for value in values:
            if value in self._groups:
                self._union_find.union(self._groups[value], np.zeros_like(self._groups[value]))

    def to_channel_groups(self) -> ChannelGroups:
        """All that was found; channels that share a factor have one number."""
        count, numbers = self._union_find.group_numbers()
        by_value = {value: numbers[of] for value, of in self._groups.items()}
        free = {name_of(v): of for v, of in by_value.items() if (of != FIXED).any()}

        def is_free(value: Value | None) -> bool:
            return value is not None and name_of(value) in free

        return ChannelGroups(
            free,
            count,
            [node for node in self._writers if is_free(node.outputs[0])],
            [node for node in self._readers if is_free(node.inputs[0])],
            [(node, place) for node, place in self._summands if is_free(node.outputs[0])],
            {name: limits for name, limits in self._bounded.items() if name in free},
            [node for node in self._gated if is_free(node.inputs[0])],
            {name: seeing for name, seeing in self._boundaries.items() if name in free},
            [name_of(value) for value in self._float_written if is_free(value)],
        )

    def _output_groups(self, node: Node) -> GroupNumbers | None:
        """The numbers of the channels of what a node puts out that is no layer; None where it has none."""
        op, value = operator_of(node), node.inputs[0] if node.inputs else None
        if value is None:
            return None
        if op == "Concat":
            return self._concat_groups(node)
        if op in ("Add", "Mul") and len(node.inputs) == 2:
            return self._elementwise_groups(node)
        if op in _VIEW_OPS:
            return self._view_groups(value, node.outputs[0])
        if op in GATED_OPS:
            return self._gated_groups(node, value)
        return self._groups.get(value) if self._is_channel_preserving(node, op) else None

    def _gated_groups(self, node: Node, value: Value) -> GroupNumbers | None:
        """Of a product with a gate, which can read channels that are scaled."""
        if (
            node.name in self._closed
            or value not in self._groups
            or not is_cheap_as_depthwise(value)
        ):
            return None
        self._gated.append(node)
        return self._groups[value]

    def _visit_layer(self, node: Node) -> None:
        value, weight = node.inputs[0], constant_of(node.inputs[1])
        assert value is not None and weight is not None
        table = input_channel_view(node, weight, 1)
        if value in self._groups:
            if len(self._groups[value]) == table.shape[0] * table.shape[2]:
                self._readers.append(node)
            else:
                self.fix_channels([value])
        self._add_groups(node.outputs[0], len(output_channel_view(node, weight)))
        self._writers.append(node)

    def _add_float_written(self, value: Value) -> None:
        """Of what leaves float."""
        count = (shape_of(value) or (0, 0))[1]
        if count:
            self._add_groups(value, count)
            self._float_written.append(value)

    def _add_groups(self, value: Value, count: int) -> None:
        self._groups[value] = self._union_find.add_elements(count)

    def _elementwise_groups(self, node: Node) -> GroupNumbers | None:
        """Of a sum, or of a product, whose first factor hands on what it is multiplied by."""
        constants = [constant_of(v) for v in node.inputs]
        place = next((k for k, array in enumerate(constants) if array is not None), None)
        if place is not None:
            value, out = node.inputs[1 - place], node.outputs[0]
            if value is None or value not in self._groups or shape_of(value) != shape_of(out):
                return None
            if operator_of(node) == "Add":
                self._summands.append((node, place))
            return self._groups[value]
        first, second = node.inputs
        if first is None or second is None or first is second:
            return None
        if operator_of(node) == "Mul":
            value, gate = (second, first) if _is_channel_gate(first, second) else (first, second)
            self.fix_channels([gate])
            return self._groups.get(value) if shape_of(value) == shape_of(node.outputs[0]) else None
        a, b = self._groups.get(first), self._groups.get(second)
        if a is None or b is None or len(a) != len(b) or not _has_same_rank(first, second):
            return None
        self._union_find.union(a, b)
        return a

    def _concat_groups(self, node: Node) -> GroupNumbers | None:
        rank = len(shape_of(node.outputs[0]) or ())
        axis = int(attributes_of(node).get("axis", 0))
        parts = []
        for value in node.inputs:
            shape = None if value is None else shape_of(value)
            if not rank or axis % rank != 1 or value is None or not shape or shape[1] is None:
                return None
            parts.append(self._groups.get(value, np.zeros(shape[1], np.int64)))
        return np.concatenate(parts)

    def _view_groups(self, value: Value, out: Value) -> GroupNumbers | None:
        """Of a view, where it keeps the channels, or lays each channel's places side by side."""
        before, after = shape_of(value), shape_of(out)
        numbers = self._groups.get(value)
        if numbers is None or before is None or after is None or len(after) < 2:
            return None
        if None in before[1:] or None in after[1:] or before[0] != after[0]:
            return None
        if prod(n or 0 for n in before[1:]) != prod(n or 0 for n in after[1:]):
            return None
        if before[1] == after[1]:
            return numbers
        if len(after) > 2:
            return None
        return np.repeat(numbers, prod(n or 0 for n in before[2:]))

    def _is_channel_preserving(self, node: Node, op: str) -> bool:
        """Whether the node hands each channel's factor on, in its place."""
        value, out = node.inputs[0], node.outputs[0]
        assert value is not None
        before, after = shape_of(value), shape_of(out)
        if (
            op not in _CHANNEL_PRESERVING_OPS
            or not before
            or not after
            or len(before) != len(after)
        ):
            return False
        if len(after) < 2 or before[:2] != after[:2]:
            return False
        if op == "PRelu":
            return constant_of(node.inputs[1]) is not None
        if op == "Pad":
            given = [constant_of(v) for v in node.inputs[1:3]]
            zero = all(v is None for v in node.inputs[2:3]) or (
                given[-1] is not None and not given[-1].any()
            )
            return zero
        return op != "Clip" or is_bounded(node)


def _is_channel_gate(value: Value, beside: Value) -> bool:
    """Whether the value has one place where the other has many: the gate of a squeeze and excitation."""
    shape, other = shape_of(value), shape_of(beside)
    if shape is None or other is None or len(shape) != len(other):
        return False
    return all(n == 1 for n in shape[2:]) and any(n != 1 for n in other[2:])


def _has_same_rank(first: Value, second: Value) -> bool:
    a, b = shape_of(first), shape_of(second)
    return a is not None and b is not None and len(a) == len(b)
