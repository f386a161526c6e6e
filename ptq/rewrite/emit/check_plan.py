"""Whether a plan fits a graph: the nodes and tensors that it names, and its scales for each channel."""

from __future__ import annotations

from math import prod

from ptq.core.errors import PlanError
from ptq.core.plan import Plan
from ptq.core.types import QuantParams
from ptq.model.graph import Graph
from ptq.model.node import (
    FLOAT_TYPES,
    Node,
    get_constant_shape,
    get_dtype,
    get_name,
    get_node_name,
    get_operator,
    get_spec,
    is_constant,
    list_consumers,
    list_values_read,
)
from ptq.model.weights.layer_weights import get_channel_axis


def check_plan(graph: Graph, plan: Plan) -> None:
    """Refuse a plan that does not belong to this graph, for example after an edit.

    Raises:
        PlanError: The plan names a node or tensor that the graph does not have, or has scales that do not fit one.
    """
    nodes = {get_node_name(node): node for node in graph.nodes}
    tensors = {get_name(v) for v in graph.inputs}
    tensors.update(
        get_name(v) for node in graph.nodes for v in (*list_values_read(node), *node.outputs)
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
    for name, producer in [
        *plan.folded.items(),
        *((n, c.producer) for n, c in plan.clamps.items()),
    ]:
        if name in plan.floats:
            raise PlanError(f"the plan lists node {name} in floats, and folds or clamps it too")
        _check_activation(nodes[name], producer)
    for (name, position), params in plan.edges.items():
        if not 0 <= position < len(nodes[name].inputs):
            raise PlanError(f"the plan requantizes {name}[{position}], which is not an input")
        if params.axis is not None:
            raise PlanError(
                f"the plan requantizes {name}[{position}] per channel; give it one scale"
            )
    for (name, position), params in plan.operands.items():
        inputs = nodes[name].inputs
        shape = get_constant_shape(inputs[position]) if 0 <= position < len(inputs) else None
        if shape is None:
            raise PlanError(f"the plan has a scale for {name}[{position}], which is not a constant")
        if params.axis is not None:
            _check_channels(nodes[name], position, shape, params, params.axis)


def _check_activation(node: Node, producer: str) -> None:
    """Refuse a node that the requantization of another one cannot do, or that does not stand behind it alone."""
    spec, before = get_spec(node), node.inputs[0] if node.inputs else None
    maker = None if before is None else before.producer()
    if spec is None or not spec.is_activation:
        raise PlanError(
            f"the plan folds or clamps node {node.name} ({get_operator(node)}), which is no Relu and no Clip"
        )
    is_alone = (
        before is not None and list_consumers(before) == [node] and not before.is_graph_output()
    )
    if maker is None or maker.name != producer or not is_alone:
        raise PlanError(
            f"the plan gives node {node.name} to {producer}, but does not find it alone behind that node"
        )


def check_completeness(graph: Graph, plan: Plan) -> None:
    """Refuse a plan that gives a node neither scales nor a reason to stay float, for example after an edit.

    Raises:
        PlanError: There is such a node; the text names the tensor that has no scale.
    """
    for node in graph.nodes:
        name = get_node_name(node)
        if name in plan.floats or name in plan.folded or name in plan.clamps:
            continue
        read = {
            get_name(value): get_name(value) in plan.tensors or (name, position) in plan.edges
            for position, value in enumerate(node.inputs)
            if value is not None and not is_constant(value) and get_dtype(value) in FLOAT_TYPES
        }
        # a target may leave one summand of an Add in float
        if read and not any(read.values()):
            raise PlanError(
                f"the plan keeps node {name} ({get_operator(node)}) out of floats, but has no scale for its input "
                f"{next(iter(read))}; add the scale, or give the node a reason in floats"
            )


def _check_channels(
    node: Node, position: int, shape: tuple[int, ...], params: QuantParams, axis: int
) -> None:
    """Refuse scales along another axis than that of the output channels, or another number of them."""
    name, is_bias = f"{node.name}[{position}]", params.qtype.bits == 32
    expected = get_channel_axis(node, len(shape)) if position == 1 else None
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
