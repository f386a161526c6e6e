"""Plan → graph with QuantizeLinear/DequantizeLinear pairs."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

from numpy.typing import NDArray

from ptq.core.plan import Plan
from ptq.core.targets import TARGETS
from ptq.core.types import QuantParams
from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    Value,
    get_constant_shape,
    get_name,
    get_node_name,
    get_operator,
    require_constant,
)
from ptq.model.weights.shared_weights import share_weights
from ptq.rewrite.emit.allow_16_bits import allow_16_bits
from ptq.rewrite.emit.block_skip_layer_norm import prevent_skip_layer_norm_fusion
from ptq.rewrite.emit.check_plan import check_plan
from ptq.rewrite.emit.decompose_prelu import decompose_float_prelu
from ptq.rewrite.emit.dense_as_matmul import write_dense_as_matmul
from ptq.rewrite.emit.fold_activations import fold_activations
from ptq.rewrite.emit.hard_sigmoid_by_saturation import write_hard_sigmoid_as_sum
from ptq.rewrite.emit.integer_tables import read_integer_tables
from ptq.rewrite.emit.keep_float import prevent_ort_quantization
from ptq.rewrite.emit.keep_reduced_axes import keep_reduced_axes
from ptq.rewrite.emit.q_dq_nodes import QuantizerBuilder
from ptq.rewrite.emit.reciprocal_as_quotient import write_reciprocals_as_quotients
from ptq.rewrite.equalize.boundary_scales import find_boundary_scale_nodes, fold_boundary_scales

ORT_WORKAROUNDS = (prevent_skip_layer_norm_fusion, decompose_float_prelu)
"""Rewrites for the speed of ONNX Runtime that keep all scales; `write_hard_sigmoid_as_sum` adds scales."""


def to_qdq(graph: Graph, plan: Plan, *, fixed_scales: bool = True) -> Graph:
    """A copy of the graph with the plan's quantizers.

    All readers of a tensor that an integer node writes read it through Q and DQ, and so does a graph output. A tensor
    that a float node writes is quantized for its integer readers only. On some targets every tensor is.

    Args:
        graph: The prepared graph.
        plan: Its plan.
        fixed_scales: Whether the plan's scales are final. If not, no operator is replaced by others whose scales
            follow from them, and ONNX Runtime must run the graph without its optimization of quantizers.

    Raises:
        PlanError: The plan names a node or tensor that the graph does not have, or has a wrong number of scales.
    """
    check_plan(graph, plan)
    quantized = fold_activations(graph, plan)
    share_weights(quantized)
    boundary_scales = find_boundary_scale_nodes(quantized, plan.boundaries)
    quantizers = QuantizerBuilder(quantized)
    for node in quantized.nodes:
        if node.name not in plan.floats:
            _quantize_constants(node, plan, quantizers)
    integers = {node for node in quantized.nodes if node.name not in plan.floats}
    float_outputs = [
        get_node_name(n) for n in integers if get_name(n.outputs[0]) not in plan.tensors
    ]
    writers = {get_name(v): node for node in quantized.nodes for v in node.outputs}
    values = {get_name(v): v for v in quantized.inputs}
    values.update((get_name(v), v) for node in quantized.nodes for v in node.outputs)
    target = TARGETS.get(plan.target)
    inputs_only = target is not None and target.quantizes_inputs_only
    for name, params in plan.tensors.items():
        if name in values:
            writer = writers.get(name)
            rounded = writer in integers and not inputs_only
            _quantize_tensor(quantized, values[name], writer, rounded, integers, params, quantizers)
    for node in quantized.nodes:
        _requantize_edges(node, plan, quantizers)
    read_integer_tables(quantized, plan, quantizers)
    fold_boundary_scales(quantized, boundary_scales)
    if fixed_scales and not inputs_only:
        prevent_ort_quantization(quantized, plan.floats, float_outputs)
    if target is not None and target.has_ort_workarounds:
        for rewrite in ORT_WORKAROUNDS:
            rewrite(quantized, plan.floats)
        if fixed_scales:
            write_hard_sigmoid_as_sum(quantized, plan.floats)
    if target is not None and target.divides_for_reciprocal:
        write_reciprocals_as_quotients(quantized, plan.floats, quantizers)
    if target is not None and target.keeps_reduced_axes:
        keep_reduced_axes(quantized)
    if target is not None and target.fuses_around_matmul:
        write_dense_as_matmul(quantized)
    for node in quantized.nodes:
        _read_shape_from_integers(node)
    allow_16_bits(quantized)
    quantized.sort()
    quantized.remove_unused()
    return quantized


def _read_shape_from_integers(node: Node) -> None:
    """Let a Shape read the integers before a DequantizeLinear, because only their shape matters."""
    maker = node.inputs[0].producer() if get_operator(node) == "Shape" and node.inputs[0] else None
    if maker is not None and get_operator(maker) == "DequantizeLinear":
        node.replace_input_with(0, maker.inputs[0])


def _quantize_constants(node: Node, plan: Plan, quantizers: QuantizerBuilder) -> None:
    assert node.name
    for position, value in enumerate(node.inputs):
        if value is None or get_constant_shape(value) is None:
            continue
        key = (node.name, position)
        params = plan.edges.get(key) or plan.operands.get(key) or plan.tensors.get(get_name(value))
        if params is None:
            continue
        is_bias = key in plan.operands and params.qtype.bits == 32
        read = partial(_read_constant, value, flat=is_bias)
        integers, scale, zero_point = quantizers.quantize_constant(value, read, params)
        real = quantizers.dequantize(
            integers, scale, zero_point, params, hint=get_name(value), before=node
        )
        node.replace_input_with(position, real)


def _read_constant(value: Value, *, flat: bool) -> NDArray[Any]:
    """The constant's array; ``flat`` for a bias: of any rank, it has one value for each channel."""
    array = require_constant(value)
    return array.reshape(-1) if flat else array


def _requantize_edges(node: Node, plan: Plan, quantizers: QuantizerBuilder) -> None:
    """Insert a Q/DQ pair before a node that reads a tensor with parameters of its own."""
    for position, value in enumerate(node.inputs):
        params = plan.edges.get((get_node_name(node), position))
        maker = value.producer() if value is not None else None
        if (
            params is None
            or value is None
            or maker is None
            or get_constant_shape(maker.inputs[0]) is not None
        ):
            continue
        integers = quantizers.quantize(value, params, before=node, after=None)
        pair = quantizers.qparam_initializers(params, get_name(value))
        real = quantizers.dequantize(integers, *pair, params, hint=get_name(integers), before=node)
        node.replace_input_with(position, real)


def _quantize_tensor(
    graph: Graph,
    value: Value,
    writer: Node | None,
    rounded: bool,
    integers: Collection[Node],
    params: QuantParams,
    quantizers: QuantizerBuilder,
) -> None:
    """Insert the quantizers of a tensor; all its readers get the ``rounded`` values, or its integer readers do."""
    name = get_name(value)
    # Nodes inside sub-graphs compute in float.
    readers = [use for use in value.uses() if rounded or use.node in integers]
    if not readers and not (rounded and value.is_graph_output()):
        return
    first = None if writer is not None else graph.nodes[0]
    quantized = quantizers.quantize(value, params, before=first, after=writer)
    pair = quantizers.qparam_initializers(params, name)
    after = quantized.producer()
    real = quantizers.dequantize(quantized, *pair, params, hint=name, after=after)
    for use in readers:
        use.node.replace_input_with(use.idx, real)
    if rounded and value.is_graph_output():
        graph.replace_output(value, real)
