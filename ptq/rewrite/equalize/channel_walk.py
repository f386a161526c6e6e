"""The walk through a graph that groups its channels: one method for each kind of operator."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import prod

import numpy as np

from ptq.model.node import (
    RESHAPE_OPS,
    Node,
    Value,
    get_attributes,
    get_constant,
    get_constant_shape,
    get_name,
    get_node_name,
    get_operator,
    get_shape,
    is_constant,
    list_consumers,
    list_values_read,
)
from ptq.model.weights.layer_weights import (
    count_input_channels,
    count_layer_channels,
    count_output_channels,
)
from ptq.rewrite.equalize.channel_ties import ChannelTies, GroupNumbers
from ptq.rewrite.equalize.layer_pairs import HOMOGENEOUS, find_bounds_around_0
from ptq.rewrite.equalize.per_channel_ops import is_cheap_as_depthwise

GATED_OPS = frozenset(["HardSwish"])
"""Operators x · g(x)."""
_CHANNEL_PRESERVING_OPS = (*HOMOGENEOUS, "Dropout", "Identity", "ReduceMax", "ReduceMean")


_WeightUse = tuple[GroupNumbers | None, GroupNumbers]
"""The groups of the channels that one node with a shared weight reads, if it reads any, and writes."""


class ChannelWalk:
    """One walk through the nodes in their order, which groups the channels of all tensors.

    Attributes:
        ties: The groups so far; group 0 must stay unchanged.
        groups: By tensor, the elements of `ties` for its channels.
        writers: Layers that write grouped channels.
        readers: Layers that read grouped channels.
        summands: Nodes that add a constant to grouped channels, with the position of the constant.
        clip_bounds: By tensor, the bounds of the Clip that writes it.
        gated_nodes: Gated operators that hand on a factor.
        float_written: Boundaries that float nodes write.
    """

    def __init__(
        self,
        closed: Collection[str],
        boundaries: Mapping[str, Collection[str]],
        families: Mapping[str, tuple[str, ...]],
    ) -> None:
        self._closed, self._boundaries, self._families = closed, boundaries, families
        self._uses: dict[tuple[str, ...], list[_WeightUse]] = {}
        self.float_written: list[Value] = []
        self.gated_nodes: list[Node] = []
        self.ties = ChannelTies()
        self.groups: dict[Value, GroupNumbers] = {}
        self.writers: list[Node] = []
        self.readers: list[Node] = []
        self.summands: list[tuple[Node, int]] = []
        self.clip_bounds: dict[str, tuple[float, float]] = {}

    def visit(self, node: Node) -> None:
        """Group the output channels of a node; fix its input channels if it does not hand on factors."""
        unscaled = {
            v: self.groups.pop(v)
            for v in list_values_read(node)
            if v in self.groups and self._is_unscaled_for(v, node)
        }
        self._assign_groups(node)
        self.groups |= unscaled

    def _is_unscaled_for(self, value: Value, node: Node) -> bool:
        """Whether the node reads or writes the unscaled channels of a boundary."""
        scaled_for = self._boundaries.get(get_name(value))
        return scaled_for is not None and node.name not in scaled_for

    def _assign_groups(self, node: Node) -> None:
        single, output = len(node.outputs) == 1, node.outputs[0] if node.outputs else None
        if any(
            reader.graph is not node.graph for v in node.outputs for reader in list_consumers(v)
        ):
            self.fix_channels(list_values_read(node))
        elif output is not None and single and self._is_unscaled_for(output, node):
            self.fix_channels(list_values_read(node))
            self._add_float_written(output)
        elif count_layer_channels(node) is not None:
            self._visit_layer(node)
        else:
            groups = self._output_groups(node) if single else None
            if output is None or groups is None:
                self.fix_channels(list_values_read(node))
            else:
                self.groups[output] = groups

    def fix_channels(self, values: Iterable[Value]) -> None:
        """Put the values' channels into group 0."""
        for value in values:
            if value in self.groups:
                self.ties.union(self.groups[value], np.zeros_like(self.groups[value]))

    def _visit_layer(self, node: Node) -> None:
        value, shape = node.inputs[0], get_constant_shape(node.inputs[1])
        assert value is not None and shape is not None
        read = self.groups.get(value)
        if read is not None:
            if len(read) == count_input_channels(node, shape):
                self.readers.append(node)
            else:
                self.fix_channels([value])
                read = None
        channels = count_output_channels(node, shape)
        groups = self.ties.add_elements(channels)
        family = self._families.get(get_node_name(node))
        if family is not None:
            self._uses.setdefault(family, []).append((read, groups))
        self.groups[node.outputs[0]] = groups
        self.writers.append(node)

    def tie_shared_weights(self) -> None:
        """Give all nodes that share a weight the same factors; 1 if one of them is no layer or reads no groups."""
        for family, uses in self._uses.items():
            read = [groups for groups, _ in uses if groups is not None]
            whole = len(uses) == len(family)
            self._tie([written for _, written in uses], fixed=not whole)
            self._tie(read, fixed=not whole or len(read) < len(uses))

    def _tie(self, uses: Sequence[GroupNumbers], *, fixed: bool) -> None:
        for groups in uses:
            self.ties.union(groups, np.zeros_like(groups) if fixed else uses[0])

    def _add_float_written(self, value: Value) -> None:
        count = (get_shape(value) or (0, 0))[1]
        if count:
            self.groups[value] = self.ties.add_elements(count)
            self.float_written.append(value)

    def _output_groups(self, node: Node) -> GroupNumbers | None:
        """The groups of a node's output channels; None if the node does not hand on factors."""
        handler = _HANDLERS.get(get_operator(node))
        value = node.inputs[0] if node.inputs else None
        return None if handler is None or value is None else handler(self, node, value)

    def concat_groups(self, node: Node, value: Value) -> GroupNumbers | None:
        """Concat along the channels; inputs without groups stay unchanged."""
        rank = len(get_shape(node.outputs[0]) or ())
        axis = int(get_attributes(node).get("axis", 0))
        segments = []
        for segment in node.inputs:
            shape = None if segment is None else get_shape(segment)
            if not rank or axis % rank != 1 or segment is None or not shape or shape[1] is None:
                return None
            segments.append(self.groups.get(segment, np.zeros(shape[1], np.int64)))
        return np.concatenate(segments)

    def sum_groups(self, node: Node, value: Value) -> GroupNumbers | None:
        """Add of two tensors ties their channels; a constant summand is scaled with the channels."""
        place = _find_constant_position(node)
        if place is not None:
            groups = self._groups_beside_constant(node, place)
            if groups is not None:
                self.summands.append((node, place))
            return groups
        other = node.inputs[1]
        if other is None or value is other:
            return None
        a, b = self.groups.get(value), self.groups.get(other)
        if a is None or b is None or len(a) != len(b) or not _has_same_rank(value, other):
            return None
        self.ties.union(a, b)
        return a

    def product_groups(self, node: Node, value: Value) -> GroupNumbers | None:
        """Mul hands on the factors of one operand; the other operand stays unchanged."""
        place, other = _find_constant_position(node), node.inputs[1]
        if place is not None:
            return self._groups_beside_constant(node, place)
        if other is None or value is other:
            return None
        x, gate = (other, value) if _is_channel_gate(value, other) else (value, other)
        self.fix_channels([gate])
        return self.groups.get(x) if get_shape(x) == get_shape(node.outputs[0]) else None

    def _groups_beside_constant(self, node: Node, place: int) -> GroupNumbers | None:
        """The groups of the operand that is not constant, if the result has its shape."""
        value = node.inputs[1 - place]
        if value is None or get_shape(value) != get_shape(node.outputs[0]):
            return None
        return self.groups.get(value)

    def view_groups(self, node: Node, value: Value) -> GroupNumbers | None:
        """A view that keeps the channels, or that lays out the positions of each channel one after the other."""
        before, after = get_shape(value), get_shape(node.outputs[0])
        groups = self.groups.get(value)
        if groups is None or before is None or after is None or len(after) < 2:
            return None
        if None in before[1:] or None in after[1:] or before[0] != after[0]:
            return None
        if prod(n or 0 for n in before[1:]) != prod(n or 0 for n in after[1:]):
            return None
        if before[1] == after[1]:
            return groups
        return None if len(after) > 2 else np.repeat(groups, prod(n or 0 for n in before[2:]))

    def gated_groups(self, node: Node, value: Value) -> GroupNumbers | None:
        """A gated operator, whose gate a depthwise convolution can rescale."""
        if (
            node.name in self._closed
            or value not in self.groups
            or not is_cheap_as_depthwise(value)
        ):
            return None
        self.gated_nodes.append(node)
        return self.groups[value]

    def preserved_groups(self, node: Node, value: Value) -> GroupNumbers | None:
        """An operator that hands on the factor of each channel in its position."""
        before, after = get_shape(value), get_shape(node.outputs[0])
        if not before or not after or len(before) != len(after):
            return None
        return self.groups.get(value) if len(after) > 1 and before[:2] == after[:2] else None

    def clip_groups(self, node: Node, value: Value) -> GroupNumbers | None:
        """A Clip with constant bounds around 0, which limit the factors."""
        bounds, groups = find_bounds_around_0(node), self.preserved_groups(node, value)
        if bounds is None or groups is None:
            return None
        self.clip_bounds[get_name(node.outputs[0])] = bounds
        return groups

    def prelu_groups(self, node: Node, value: Value) -> GroupNumbers | None:
        """A PRelu with constant slopes."""
        constant = is_constant(node.inputs[1])
        return self.preserved_groups(node, value) if constant else None

    def pad_groups(self, node: Node, value: Value) -> GroupNumbers | None:
        """A Pad with zeros."""
        fill = node.inputs[2] if len(node.inputs) > 2 else None
        array = get_constant(fill)
        zero = fill is None or (array is not None and not array.any())
        return self.preserved_groups(node, value) if zero else None

    def resize_groups(self, node: Node, value: Value) -> GroupNumbers | None:
        """A Resize that puts nothing but zeros around a crop."""
        attrs = get_attributes(node)
        crops = attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize"
        fills = crops and attrs.get("extrapolation_value", 0.0) != 0
        return None if fills else self.preserved_groups(node, value)


_HANDLERS: Mapping[str, Callable[[ChannelWalk, Node, Value], GroupNumbers | None]] = {
    **dict.fromkeys(RESHAPE_OPS, ChannelWalk.view_groups),
    **dict.fromkeys(GATED_OPS, ChannelWalk.gated_groups),
    **dict.fromkeys(_CHANNEL_PRESERVING_OPS, ChannelWalk.preserved_groups),
    "Add": ChannelWalk.sum_groups,
    "Clip": ChannelWalk.clip_groups,
    "Concat": ChannelWalk.concat_groups,
    "Mul": ChannelWalk.product_groups,
    "PRelu": ChannelWalk.prelu_groups,
    "Pad": ChannelWalk.pad_groups,
    "Resize": ChannelWalk.resize_groups,
}
"""By operator, the method that gives the groups of the output channels."""


def _find_constant_position(node: Node) -> int | None:
    """The position of the first constant input; None if there is none."""
    constants = [position for position, v in enumerate(node.inputs) if is_constant(v)]
    return constants[0] if constants else None


def _is_channel_gate(value: Value, other: Value) -> bool:
    """Whether the value has one position where the other has many: the gate of squeeze and excitation."""
    shape, full = get_shape(value), get_shape(other)
    if shape is None or full is None or len(shape) != len(full):
        return False
    return all(n == 1 for n in shape[2:]) and any(n != 1 for n in full[2:])


def _has_same_rank(first: Value, second: Value) -> bool:
    a, b = get_shape(first), get_shape(second)
    return a is not None and b is not None and len(a) == len(b)
