"""Multiplication of the channels of a graph by factors, which weights, biases and summands absorb.

The graph computes the same function.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from ptq.core.errors import PlanError
from ptq.core.opspec import BIAS_INPUT, WEIGHT_INPUT
from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    Value,
    get_constant,
    get_constant_shape,
    get_name,
    get_node_name,
    get_shape,
)
from ptq.model.proto.mapped_weight import release_mapped_pages
from ptq.model.weights.layer_weights import view_input_channels
from ptq.model.weights.shared_weights import find_weight_families
from ptq.rewrite.edit import set_constant
from ptq.rewrite.equalize.boundary_scales import insert_boundary_scale
from ptq.rewrite.equalize.channel_groups import FIXED, ChannelGroups, group_channels
from ptq.rewrite.equalize.per_channel_ops import (
    add_per_channel,
    is_cheap_as_depthwise,
    scale_hard_swish,
)
from ptq.rewrite.equalize.scaled_weight import scale_constant

_Factors = NDArray[np.float64] | None

_BLOCK_VALUES = 2**16
"""Values of a weight that are scaled at once."""


def to_tensor_factors(
    found: ChannelGroups, factors: NDArray[np.float64]
) -> dict[str, tuple[float, ...]]:
    """The factors of the channels of the layers' outputs, by tensor; without outputs that stay unchanged."""
    outputs = [*(get_name(node.outputs[0]) for node in found.writers), *found.float_written]
    by_name = {name: factors[found.groups[name]] for name in outputs}
    return {name: tuple(map(float, of)) for name, of in by_name.items() if (of != 1).any()}


def to_group_factors(
    found: ChannelGroups, factors: Mapping[str, Sequence[float]]
) -> NDArray[np.float64]:
    """The factor of each group, from the factors of the channels of layers' outputs.

    Raises:
        PlanError: The factors name other tensors, are not positive, or contradict each other.
    """
    by_group = np.ones(found.group_count)
    for name, of in factors.items():
        groups, values = found.groups.get(name), np.asarray(of, np.float64)
        if groups is None or values.shape != groups.shape:
            raise PlanError(
                f"the plan has factors for {values.size} channels of {name}, which the model does not have; "
                "create a new plan"
            )
        by_group[groups] = values
    for name, of in factors.items():
        wrong = by_group[found.groups[name]] != of
        if by_group[FIXED] != 1 or wrong.any() or not (np.isfinite(of).all() and np.min(of) > 0):
            raise PlanError(
                f"the plan's factors of {name} are not positive, or differ for channels that must share one; "
                "create a new plan"
            )
    return by_group


def scale_channels(
    graph: Graph,
    factors: NDArray[np.float64],
    boundaries: Mapping[str, Collection[str]] | None = None,
) -> Graph:
    """A graph with each channel multiplied by the factor of its group; it computes the same, except for rounding.

    Args:
        graph: A prepared graph.
        factors: The factor of each group.
        boundaries: As for `group_channels`; a Mul multiplies or divides their channels.
    """
    changed = graph.copy()
    found = group_channels(changed, boundaries=boundaries)
    constants = _LayerConstants(changed)

    def factors_of(value: Value | None) -> NDArray[np.float64] | None:
        groups = None if value is None else found.groups.get(get_name(value))
        of = None if groups is None else factors[groups]
        return None if of is None or (of == 1).all() else of

    for node in dict.fromkeys((*found.writers, *found.readers)):
        constants.scale_layer(node, factors_of(node.outputs[0]), factors_of(node.inputs[0]))
    gated = {
        node: factor
        for node in found.gated_nodes
        if (factor := factors_of(node.inputs[0])) is not None
    }
    gated_groups = {n for node in gated for n in found.input_groups(node).tolist()} - {FIXED}
    for node, position in found.summands:
        factor, summand = factors_of(node.outputs[0]), get_constant(node.inputs[position])
        if factor is None or summand is None:
            continue
        groups = found.groups[get_name(node.outputs[0])]
        if (
            gated_groups.intersection(groups.tolist())
            and summand.size == 1
            and is_cheap_as_depthwise(node.outputs[0])
        ):
            add_per_channel(changed, node, position, factor * summand.item())
        else:
            spatial = len(get_shape(node.outputs[0]) or ()) - 2
            scaled = summand * factor.reshape(-1, *(1,) * spatial)
            set_constant(changed, node, position, scaled.astype(np.float32), "summand")
    for value in [value for node in changed.nodes for value in node.outputs]:
        factor = factors_of(value)
        if get_name(value) in found.boundaries and factor is not None:
            insert_boundary_scale(changed, value, factor, found.boundaries[get_name(value)])
    for node, factor in gated.items():
        scale_hard_swish(changed, node, factor)
    changed.remove_unused()
    is_longer = len(changed.nodes) > len(graph.nodes)
    return changed.with_shapes() if is_longer else changed  # other constants change no shape


class _LayerConstants:
    """Scales the weights and biases of layers; layers that share one and have the same factors share the result."""

    def __init__(self, graph: Graph) -> None:
        self._graph, self._families = graph, find_weight_families(graph)
        self._scaled: dict[tuple[Any, ...], Value | None] = {}

    def scale_layer(self, node: Node, written: _Factors, read: _Factors) -> None:
        """Multiply the output channels of a layer, and divide its input channels, by factors; None for none."""
        if written is not None and len(node.inputs) > BIAS_INPUT:
            bias = get_constant(node.inputs[BIAS_INPUT])
            if bias is not None:
                self._replace(node, BIAS_INPUT, [written], lambda: bias * written, "bias")
        if written is not None or read is not None:
            value = node.inputs[WEIGHT_INPUT]
            assert value is not None
            assert value.const_value is not None
            weight = value.const_value  # the value leaves the graph with its last reader
            self._replace(
                node,
                WEIGHT_INPUT,
                [written, read],
                lambda: _scale_weight(node, weight, written, read),
                "weight",
            )

    def _replace(
        self,
        node: Node,
        position: int,
        factors: Sequence[_Factors],
        scale: Callable[[], NDArray[Any]],
        hint: str,
    ) -> None:
        family = self._families.get(get_node_name(node), node.name)
        used = (None if of is None else of.tobytes() for of in factors)
        key = (node.inputs[position], family, *used)
        if key in self._scaled:
            node.replace_input_with(position, self._scaled[key])
            return
        shape = get_constant_shape(node.inputs[position])
        assert shape is not None
        set_constant(self._graph, node, position, scale_constant(shape, scale), hint)
        self._scaled[key] = node.inputs[position]


def _scale_weight(
    node: Node, tensor: ir.TensorProtocol, written: _Factors, read: _Factors
) -> NDArray[np.float32]:
    """The scaled weight, computed in float64 in blocks that fit the cache."""
    weight = tensor.numpy()
    scaled = np.empty(weight.shape, np.float32)
    source, target = (view_input_channels(node, array, 1) for array in (weight, scaled))
    groups, outputs, inputs, _ = source.shape
    ones = np.ones(())
    factors = ones if written is None else written.reshape(groups, outputs, 1, 1)
    divisors = ones if read is None else read.reshape(groups, 1, inputs, 1)
    factors, divisors = (np.broadcast_to(a, source.shape) for a in (factors, divisors))
    # the outermost axis in memory, so that a block holds neighbours
    axis = max(range(3), key=lambda axis: source.strides[axis] * (source.shape[axis] > 1))
    at_once = max(1, _BLOCK_VALUES * source.shape[axis] // max(1, source.size))
    for start in range(0, source.shape[axis], at_once):
        block = (slice(None),) * axis + (slice(start, start + at_once),)
        target[block] = source[block] * factors[block] / divisors[block]
    release_mapped_pages()
    return scaled
