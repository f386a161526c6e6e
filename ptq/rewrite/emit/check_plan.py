"""Whether a plan fits a graph: the nodes and tensors that it names, and its scales for each channel."""

from __future__ import annotations

from math import prod

from ptq.core.errors import PlanError
from ptq.core.plan import Plan
from ptq.core.types import QuantParams
from ptq.model.graph import Graph
from ptq.model.layer_weights import channel_axis
from ptq.model.node import Node, constant_shape, name_of, values_read_by


def check_plan(graph: Graph, plan: Plan) -> None:
    """Refuse a plan that does not belong to this graph, for example after an edit.

    Raises:
        PlanError: The plan names a node or tensor that the graph does not have, or has scales that do not fit one.
    """
    nodes = {node.name or "": node for node in graph.nodes}
    tensors = {name_of(v) for v in graph.inputs}
    tensors.update(
        name_of(v) for node in graph.nodes for v in (*values_read_by(node), *node.outputs)
    )
    for name, params in plan.tensors.items():
        if name not in tensors:
            raise PlanError(f"the plan has a scale for {name}, which is not a tensor of the graph")
        if params.axis is not None:
            raise PlanError(f"the plan quantizes {name} per channel; give activations one scale")
    inputs_in_plan = [*plan.operands, *plan.edges]
    nodes_in_plan = [*plan.floats, *plan.folded, *plan.clamps, *(n for n, _ in inputs_in_plan)]
    nodes_in_plan += plan.rounding or ()
    for name in nodes_in_plan:
        if name not in nodes:
            raise PlanError(f"the plan names node {name}, which is not in the graph")
    for (name, position), params in plan.edges.items():
        if not 0 <= position < len(nodes[name].inputs):
            raise PlanError(f"the plan requantizes {name}[{position}], which is not an input")
        if params.axis is not None:
            raise PlanError(
                f"the plan requantizes {name}[{position}] per channel; give it one scale"
            )
    for (name, position), params in plan.operands.items():
        inputs = nodes[name].inputs
        shape = constant_shape(inputs[position]) if 0 <= position < len(inputs) else None
        if shape is None:
            raise PlanError(f"the plan has a scale for {name}[{position}], which is not a constant")
        if params.axis is not None:
            _check_channels(nodes[name], position, shape, params, params.axis)


def _check_channels(
    node: Node, position: int, shape: tuple[int, ...], params: QuantParams, axis: int
) -> None:
    """Refuse scales along another axis than that of the output channels, or another number of them."""
    name, is_bias = f"{node.name}[{position}]", params.qtype.bits == 32
    expected = channel_axis(node, len(shape)) if position == 1 else None
    expected = 0 if is_bias else axis if expected is None else expected
    if axis != expected:
        raise PlanError(
            f"the plan has scales along axis {axis} of {name}, whose channel axis is {expected}"
        )
    if not is_bias and axis >= len(shape):
        raise PlanError(
            f"the plan has scales along axis {axis} of {name}, which has {len(shape)} axes"
        )
    channels = prod(shape) if is_bias else shape[axis]
    if params.scale.size != channels:
        raise PlanError(
            f"the plan has {params.scale.size} scales for the {channels} channels of {name}"
        )
