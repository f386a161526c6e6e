"""Multiplies the channels of a graph by factors that weights, biases and summands take up: it computes the same."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import PlanError
from ptq.model.graph import Graph
from ptq.model.layer_weights import input_channel_view, output_channel_view
from ptq.model.node import Node, Value, constant_of, name_of, shape_of
from ptq.rewrite.edit import set_constant
from ptq.rewrite.equalize.boundary_scales import insert_boundary_scale
from ptq.rewrite.equalize.channel_groups import FIXED, ChannelGroups, group_channels
from ptq.rewrite.equalize.per_channel_ops import (
    add_per_channel,
    is_cheap_as_depthwise,
    scale_hard_swish,
)


def factors_by_tensor(
    found: ChannelGroups, factors: NDArray[np.float64]
) -> dict[str, tuple[float, ...]]:
    """What layers' outputs are multiplied by, channel by channel; those that stay as they are, are left out."""
    outputs = [*(name_of(node.outputs[0]) for node in found.writers), *found.float_written]
    by = {name: factors[found.groups[name]] for name in outputs}
    return {name: tuple(map(float, of)) for name, of in by.items() if (of != 1).any()}


def factors_by_group(
    found: ChannelGroups, factors: Mapping[str, Sequence[float]]
) -> NDArray[np.float64]:
    """The factor of each number, of those of layers' outputs.

    Raises:
        PlanError: They are of other tensors, not positive, or contradict each other.
    """
    by = np.ones(found.group_count)
    for name, of in factors.items():
        numbers, given = found.groups.get(name), np.asarray(of, np.float64)
        if numbers is None or given.shape != numbers.shape:
            raise PlanError(
                f"the plan's factors name {name} with {given.size} channels, which the model has not; make it anew"
            )
        by[numbers] = given
    for name, of in factors.items():
        wrong = by[found.groups[name]] != of
        if by[FIXED] != 1 or wrong.any() or not (np.isfinite(of).all() and np.min(of) > 0):
            raise PlanError(
                f"the plan's factors of {name} are not positive, or channels that share one have two; make it anew"
            )
    return by


def scale_channels(
    graph: Graph,
    factors: NDArray[np.float64],
    shores: Mapping[str, Collection[str]] | None = None,
) -> Graph:
    """The graph with each channel multiplied by the factor of its number; it computes the same, but for rounding.

    At shores, as `channels` takes them, a Mul gives the factors or takes them back.
    """
    changed = graph.copy()
    found = group_channels(changed, shores=shores)

    def by(value: Value | None) -> NDArray[np.float64] | None:
        numbers = None if value is None else found.groups.get(name_of(value))
        some = None if numbers is None else factors[numbers]
        return None if some is None or (some == 1).all() else some

    def give(node: Node, position: int, array: NDArray[np.float64], hint: str) -> None:
        set_constant(changed, node, position, array.astype(np.float32), hint)

    for node in dict.fromkeys((*found.writers, *found.readers)):
        weight = np.array(constant_of(node.inputs[1]), np.float64)
        above, below = by(node.outputs[0]), by(node.inputs[0])
        if above is not None:
            output_channel_view(node, weight)[...] *= above[:, None]
            bias = constant_of(node.inputs[2]) if len(node.inputs) > 2 else None
            if bias is not None:
                give(node, 2, bias * above, "bias")
        if below is not None:
            table = input_channel_view(node, weight, 1)
            table /= below.reshape(table.shape[0], 1, table.shape[2], 1)
        if above is not None or below is not None:
            give(node, 1, weight, "weight")
    opened = {
        node: factor for node in found.gated_nodes if (factor := by(node.inputs[0])) is not None
    }
    carried = {n for node in opened for n in found.input_groups(node).tolist()} - {FIXED}
    for node, position in found.summands:
        factor, summand = by(node.outputs[0]), constant_of(node.inputs[position])
        if factor is None or summand is None:
            continue
        numbers = found.groups[name_of(node.outputs[0])]
        if (
            carried.intersection(numbers.tolist())
            and summand.size == 1
            and is_cheap_as_depthwise(node.outputs[0])
        ):
            add_per_channel(changed, node, position, factor * summand.item())
        else:
            spatial = len(shape_of(node.outputs[0]) or ()) - 2
            give(node, position, summand * factor.reshape(-1, *(1,) * spatial), "summand")
    for value in [value for node in changed.nodes for value in node.outputs]:
        factor = by(value)
        if name_of(value) in found.boundaries and factor is not None:
            insert_boundary_scale(changed, value, factor, found.boundaries[name_of(value)])
    for node, factor in opened.items():
        scale_hard_swish(changed, node, factor)
    changed.remove_unused()
    return changed.with_shapes()
