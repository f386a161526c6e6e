"""Groups of channels that must be multiplied by the same factor so that the function of the graph stays.

The output channels of a layer may be multiplied by factors by which its readers divide. Operators between them must
hand the factor on: f(a x) = a f(x) for a > 0. A gated operator x · g(x) hands it on too, if its gate g reads the
channels divided again. A sum ties the channels of its summands to each other, and so all channels of a residual
stream. Concat, Split and Flatten only give the channels other positions. Each channel of each tensor gets the number
of its group. Group 0 has the factor 1.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ptq.model.graph import Graph
from ptq.model.node import Node, Value, get_name
from ptq.rewrite.equalize.channel_ties import GroupNumbers
from ptq.rewrite.equalize.channel_walk import ChannelWalk

FIXED = 0
"""The group of the channels that must stay unchanged."""


@dataclass(frozen=True, eq=False)
class ChannelGroups:
    """The groups of a graph's channels, along axis 1.

    Attributes:
        groups: By tensor, the group of each channel; without tensors whose channels are all in group 0.
        group_count: The number of groups, with group 0.
        writers: Layers whose output channels may be scaled.
        readers: Layers whose input channels may be scaled.
        summands: Nodes that add a constant to scaled channels, with the position of the constant.
        clip_bounds: By tensor, the bounds of the Clip that writes it.
        gated_nodes: Gated operators that hand on a factor if their gate reads the channels divided by it.
        boundaries: Tensors between integers and float, with the nodes that read or write the scaled channels.
        float_written: The boundaries that float nodes write.
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
        """The groups of the channels that a layer reads."""
        value = node.inputs[0]
        assert value is not None
        return self.groups[get_name(value)]


def group_channels(
    graph: Graph,
    closed: Collection[str] = (),
    boundaries: Mapping[str, Collection[str]] | None = None,
    families: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> ChannelGroups:
    """Group the channels of a prepared graph with shapes.

    Args:
        graph: The graph.
        closed: Names of gated operators that shall not hand on factors.
        boundaries: Tensors, with the names of the nodes that read or write the scaled channels; quantizers give
            the other nodes the unscaled channels.
        families: Nodes that share a weight and must have the same factors, see `ptq.model.weights.shared_weights`.
    """
    boundaries = boundaries or {}
    walk = ChannelWalk(closed, boundaries, families)
    for node in graph.nodes:
        walk.visit(node)
    walk.fix_channels(value for value in graph.outputs if get_name(value) not in boundaries)
    walk.tie_shared_weights()
    count, numbers = walk.ties.group_numbers()
    by_name = {get_name(value): numbers[groups] for value, groups in walk.groups.items()}
    free = {name: groups for name, groups in by_name.items() if (groups != FIXED).any()}

    def is_free(value: Value | None) -> bool:
        return value is not None and get_name(value) in free

    return ChannelGroups(
        free,
        count,
        [node for node in walk.writers if is_free(node.outputs[0])],
        [node for node in walk.readers if is_free(node.inputs[0])],
        [(node, place) for node, place in walk.summands if is_free(node.outputs[0])],
        {name: limits for name, limits in walk.clip_bounds.items() if name in free},
        [node for node in walk.gated_nodes if is_free(node.inputs[0])],
        {name: nodes for name, nodes in boundaries.items() if name in free},
        [get_name(value) for value in walk.float_written if is_free(value)],
    )
