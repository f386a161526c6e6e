"""Scales of weights and biases.

Weights are symmetric in [-127, 127] with zero point 0 and one scale for each output channel (LiteRT's 8-bit
specification). A bias has S_bias = S_input · S_weight and Z_bias = 0 (Jacob et al. 2018, eq. 11).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import PlanError
from ptq.core.opspec import BIAS_INPUT, WEIGHT_INPUT, Role
from ptq.core.plan import Plan, Why
from ptq.core.target import Target
from ptq.core.types import INT32, QuantParams, Range
from ptq.kernels.int16_saturation import find_largest_pair_sum
from ptq.model.graph import Graph
from ptq.model.node import get_name, get_node_name, require_constant
from ptq.model.weights.layer_weights import (
    build_channel_pair_matrix,
    get_channel_axis,
    view_summation_order_matrix,
)
from ptq.observers.qparams import SCALE_FLOOR, compute_asymmetric_qparams, compute_symmetric_qparams
from ptq.solver.partition.node_precision import QuantizedNode

QParamsWithReason = tuple[QuantParams, Why]

BIAS_BITS = 24
"""Bits that float32 resolves, in which runtimes rescale."""


def compute_weight_and_bias_qparams(
    quantized: QuantizedNode,
    activations: list[QuantParams],
    target: Target,
    *,
    per_tensor: bool,
    reduced: bool,
) -> Mapping[int, QParamsWithReason]:
    """Parameters of a node's weight and bias, by input position, each with its reason.

    Args:
        quantized: The node.
        activations: Parameters of its activation inputs, in order.
        target: The target to quantize for.
        per_tensor: One scale for the whole weight.
        reduced: Choose scales for which sums of two neighbouring products never saturate int16.
    """
    by_role = {operand.role: operand for operand in quantized.operands}
    weight = by_role.get(Role.WEIGHT)
    bias = None if target.float_biases else by_role.get(Role.BIAS)
    solved: dict[int, QParamsWithReason] = {}
    second = activations[1] if len(activations) > 1 else None
    if weight is not None:
        whole = per_tensor or not target.per_channel
        array = require_constant(weight.value)  # a scaled weight is computed at each first read
        axis = None if whole else _find_scale_axis(quantized, array.ndim)
        paired = _compute_largest_pair_sums(quantized, array, target) if reduced else None
        params, why = _compute_weight_qparams(array, target, axis, paired)
        if bias is not None and not array.any():
            params, why = _compute_zero_weight_qparams(
                params, activations[0], require_constant(bias.value)
            )
        elif bias is not None:
            room = _compute_bias_limit(array, params)
            widened = _widen_for_bias(params, activations[0], require_constant(bias.value), room)
            if widened is not None:
                params, why = widened
        solved[weight.position] = params, why
        second = params
    if bias is not None and second is not None:
        solved[bias.position] = compute_bias_qparams(
            require_constant(bias.value), activations[0], second
        )
    return solved


def with_derived_biases(graph: Graph, plan: Plan) -> Plan:
    """The plan with the scale of every bias computed from its input and weight scales, which a user may have edited.

    Raises:
        PlanError: A bias does not fit int32 with that scale.
    """
    solved = dict(plan.operands)
    for node in graph.nodes:
        name = get_node_name(node)
        if (name, WEIGHT_INPUT) not in solved or (name, BIAS_INPUT) not in solved:
            continue
        source, value = node.inputs[0], node.inputs[BIAS_INPUT]
        first = plan.edges.get((name, 0))
        if first is None and source is not None:
            first = plan.tensors.get(get_name(source))
        if first is None or value is None:
            continue
        bias = require_constant(value)
        params, _ = compute_bias_qparams(bias, first, solved[name, WEIGHT_INPUT])
        if np.abs(bias.astype(np.float64).reshape(-1) / params.scale).max() > INT32.hi:
            raise PlanError(
                f"the bias of {name} does not fit int32 with the plan's scales; enlarge them"
            )
        solved[name, BIAS_INPUT] = params
    return replace(plan, operands=solved)


def _find_scale_axis(quantized: QuantizedNode, rank: int) -> int | None:
    """The axis of a weight along which each output channel may have its own scale; None if it may not."""
    # QLinearMatMul takes one scale for each column only where all batches share the columns
    return (
        None
        if quantized.spec.op == "MatMul" and rank != 2
        else get_channel_axis(quantized.node, rank)
    )


def _compute_largest_pair_sums(
    quantized: QuantizedNode, array: NDArray[Any], target: Target
) -> NDArray[Any] | None:
    """The largest sum of two neighbouring weights of one sign, by output channel; None if pairs are not added."""
    orders = [view_summation_order_matrix(quantized.node, array)]
    if target.pairs_channels:
        orders.append(build_channel_pair_matrix(quantized.node, array))
    sums = [find_largest_pair_sum(columns) for columns in orders if columns is not None]
    return np.maximum.reduce(sums) if sums else None


def _compute_weight_qparams(
    array: NDArray[Any], target: Target, axis: int | None, paired: NDArray[Any] | None
) -> QParamsWithReason:
    """Parameters of a weight by its minimum and maximum, or by its largest sums of two neighbours (``paired``)."""
    scope = "" if axis is None else ", per output channel"
    other_axes = None if axis is None else tuple(a for a in range(array.ndim) if a != axis)
    if target.weight_zero_point:
        extremes = Range(
            np.min(array, axis=other_axes, initial=0.0), np.max(array, axis=other_axes, initial=0.0)
        )
        detail = f"minimum and maximum{scope}"
        return compute_asymmetric_qparams(extremes, target.weight, axis), Why("observed", detail)
    ends = np.stack([array.min(axis=other_axes), array.max(axis=other_axes)]).astype(np.float64)
    threshold = np.abs(ends).max(axis=0)
    detail = f"largest absolute value{scope}"
    if paired is not None:
        threshold = paired.astype(np.float64).max(axis=None if axis is None else ())
        detail = f"largest absolute sum of two neighbouring weights{scope}"
    return compute_symmetric_qparams(threshold, target.weight, axis), Why("observed", detail)


def _compute_zero_weight_qparams(
    weight: QuantParams, first: QuantParams, bias: NDArray[Any]
) -> QParamsWithReason:
    """Parameters of a weight of zeros: its scale only sets the scale of the bias."""
    lsb = float(np.abs(bias).max()) / 2**BIAS_BITS
    scale = np.full(weight.scale.shape, max(lsb / float(first.scale), SCALE_FLOOR), np.float32)
    params = QuantParams(scale, weight.zero_point, weight.qtype, weight.axis)
    return params, Why("derived", "weight of zeros: scale from the bias alone")


def _compute_bias_limit(weight: NDArray[Any], params: QuantParams) -> int:
    """The largest magnitude of a bias, in its integers, with which K products still fit int32."""
    largest = int(np.max(params.qtype.hi - params.zero_point))
    products = weight.size // max(1, params.scale.size) * 255 * largest
    return max(INT32.hi - products, INT32.hi // 2)


def _widen_for_bias(
    weight: QuantParams, first: QuantParams, bias: NDArray[Any], room: int
) -> QParamsWithReason | None:
    """Weight scales enlarged where the bias would not fit int32; None if the bias fits everywhere."""
    magnitude = np.abs(bias.astype(np.float64)).reshape(-1)
    if weight.axis is not None:
        magnitude = magnitude.reshape(-1, weight.scale.size).max(axis=0)
    needed = np.max(magnitude, axis=None if weight.axis is None else (), initial=0.0)
    needed = needed / (float(first.scale) * room)
    short = needed > weight.scale
    if not short.any():
        return None
    above = np.nextafter(needed.astype(np.float32), np.float32(np.inf))
    scale = np.where(short, above, weight.scale)
    worst = float(np.max(scale / weight.scale))
    detail = (
        f"{int(short.sum())} scale(s) widened up to {worst:.3g} times for the bias to fit int32"
    )
    return QuantParams(scale, weight.zero_point, weight.qtype, weight.axis), Why("derived", detail)


def compute_bias_qparams(
    bias: NDArray[Any], first: QuantParams, second: QuantParams
) -> QParamsWithReason:
    """Parameters of a bias: input scale × weight scale, zero point 0."""
    scale = np.asarray(first.scale * second.scale)
    # the groups of a ConvTranspose share their scales
    if scale.ndim and scale.size != bias.size:
        scale = np.tile(scale, bias.size // scale.size)
    zeros = np.zeros(scale.shape, np.int64)
    params = QuantParams(scale, zeros, INT32, 0 if scale.ndim else None)
    return params, Why("derived", "input scale × weight scale")
