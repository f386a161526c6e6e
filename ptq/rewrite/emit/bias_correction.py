"""Bias correction: biases compensate the mean error of rounded weights and rounded inputs.

With weights W rounded to Ŵ and an input x rounded to x̂, the mean of an output channel shifts by

    Σ Ŵ · E[x̂] − Σ W · E[x]

and the bias subtracts this shift. Nagel et al. 2019, "Data-Free Quantization Through Weight Equalization and Bias
Correction", section 4.2, here with observed means. E[x̂ − x] is one number for each channel if samples were read
again after the ranges were set. Otherwise it is one number for the tensor, from its statistics. A kernel position
counts for the share of the output positions at which it lies inside the input. If sizes vary, this share varies too,
and a convolution with padding stays unchanged.

Nodes that share a weight and a bias keep one bias. It subtracts the mean of their shifts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.opspec import BIAS_INPUT, WEIGHT_INPUT
from ptq.core.plan import Plan
from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    get_attributes,
    get_constant,
    get_constant_shape,
    get_name,
    get_node_name,
    get_operator,
    get_shape,
    is_constant,
)
from ptq.model.weights.layer_weights import view_input_channels, view_output_channels
from ptq.model.weights.shared_weights import find_weight_families
from ptq.observers.input_means import InputMean
from ptq.rewrite.emit.rounded_weight import RoundedWeight

CORRECTABLE_OPS = ("Conv", "Gemm")
_WEIGHTS_AT_ONCE = 2**22
"""Weights of a Gemm that are in float64 at once."""


def list_channel_axes(graph: Graph) -> dict[str, int]:
    """The tensors whose channel means bias correction needs, each with its channel axis."""
    return {
        get_name(value): 1
        for node in graph.nodes
        if get_operator(node) in CORRECTABLE_OPS
        and (value := node.inputs[0])
        and not is_constant(value)
    }


def is_correctable(node: Node) -> bool:
    """Whether the node's bias can be corrected, given the means of its input."""
    if get_operator(node) not in CORRECTABLE_OPS or len(node.inputs) < 3:
        return False
    shape = get_constant_shape(node.inputs[WEIGHT_INPUT])
    if shape is None or not is_constant(node.inputs[BIAS_INPUT]):
        return False
    return _compute_kernel_coverage(node, shape) is not None


def correct_biases(
    graph: Graph,
    plan: Plan,
    means: Mapping[str, InputMean],
    rounded: Mapping[str, NDArray[Any] | RoundedWeight] | None,
    added: Mapping[str, NDArray[np.float64]] | None = None,
) -> tuple[Graph, int]:
    """A graph with corrected biases, and the number of corrected nodes.

    Args:
        graph: The prepared graph.
        plan: Its plan; only weights that it quantizes have an error.
        means: Means of the tensors of `list_channel_axes`; nodes that read other tensors stay unchanged.
        rounded: By node, the dequantized weight if it is not rounded to nearest.
        added: By node, the shift of the mean of each channel of its input by quantization, if it was measured.
    """
    corrected, families = graph.copy(), find_weight_families(graph)
    shifts: dict[tuple[Any, ...], list[tuple[Node, NDArray[np.float64]]]] = {}
    for node in corrected.nodes:
        name, first = get_node_name(node), node.inputs[0] if node.inputs else None
        if get_operator(node) in CORRECTABLE_OPS and first is not None and get_name(first) in means:
            mean = means[get_name(first)]
            channel_shift = (added or {}).get(name)
            mean = mean if channel_shift is None else replace(mean, mean_shift=channel_shift)
            shift = _compute_output_shift(node, plan, mean, (rounded or {}).get(name))
            if shift is not None:
                key = _build_bias_key(node) if name in families else ()
                shifts.setdefault((families.get(name, name), *key), []).append((node, shift))
    for uses in shifts.values():
        _correct_bias([node for node, _ in uses], [shift for _, shift in uses], corrected)
    return corrected, sum(map(len, shifts.values()))


def _build_bias_key(node: Node) -> tuple[Any, ...]:
    """What the nodes that share a weight also have in common if they share a bias; zeros may be of one node each."""
    value, bias = node.inputs[BIAS_INPUT], get_constant(node.inputs[BIAS_INPUT])
    assert value is not None and bias is not None
    return (bias.shape, bias.tobytes()) if bias.any() else (get_name(value),)


def _correct_bias(
    nodes: Sequence[Node], shifts: Sequence[NDArray[np.float64]], graph: Graph
) -> None:
    """Subtract the mean shift over all nodes from the bias that they share, in place."""
    bias = nodes[0].inputs[BIAS_INPUT]
    values = get_constant(bias)
    assert bias is not None and values is not None
    shift = shifts[0] if len(shifts) == 1 else np.mean(shifts, axis=0)
    new = (values.astype(np.float64).reshape(-1) - shift).reshape(values.shape)
    constant = graph.add_constant(new.astype(values.dtype), f"{bias.name}_corrected")
    for node in nodes:
        node.replace_input_with(BIAS_INPUT, constant)


def _compute_output_shift(
    node: Node, plan: Plan, mean: InputMean, rounded: NDArray[Any] | RoundedWeight | None
) -> NDArray[np.float64] | None:
    """What quantization adds to the mean of each output channel; None if the bias cannot be corrected for it."""
    weight, bias = (
        node.inputs[WEIGHT_INPUT],
        node.inputs[BIAS_INPUT] if len(node.inputs) > BIAS_INPUT else None,
    )
    array, params = get_constant(weight), plan.find_weight_qparams(get_node_name(node))
    if array is None or not is_constant(bias) or params is None:
        return None
    coverage = _compute_kernel_coverage(node, array.shape)
    if coverage is None:
        return None
    real = params.round(array) if rounded is None else np.asarray(rounded)
    shift = _compute_output_means(node, real, coverage, mean.float_mean + mean.mean_shift)
    return shift - _compute_output_means(node, array, coverage, mean.float_mean)


def _compute_kernel_coverage(node: Node, weight: tuple[int, ...]) -> NDArray[np.float64] | None:
    """The share of output positions at which each kernel position lies inside the input; None if it varies."""
    attrs, kernel = get_attributes(node), weight[2:]
    pads = tuple(attrs.get("pads", (0,) * 2 * len(kernel)))
    if get_operator(node) == "Gemm" or (
        not any(pads) and attrs.get("auto_pad", "NOTSET") == "NOTSET"
    ):
        return np.ones(())
    shape = get_shape(node.inputs[0]) if node.inputs[0] is not None else None
    if shape is None or attrs.get("auto_pad", "NOTSET") != "NOTSET":
        return None
    share = np.ones(())
    for axis, (size, taps) in enumerate(zip(shape[2:], kernel, strict=True)):
        if size is None:
            return None
        stride = attrs.get("strides", (1,) * len(kernel))[axis]
        dilation = attrs.get("dilations", (1,) * len(kernel))[axis]
        reach = size + pads[axis] + pads[axis + len(kernel)] - (taps - 1) * dilation
        starts = np.arange(0, max(reach, 1), stride) - pads[axis]
        at = starts[:, None] + np.arange(taps) * dilation
        share = np.multiply.outer(share, ((at >= 0) & (at < size)).mean(axis=0))
    return share


def _compute_output_means(
    node: Node, weight: NDArray[Any], coverage: NDArray[np.float64], mean: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The mean of each output channel, from the weight and the means of the input channels."""
    if get_operator(node) == "Gemm":
        rows = view_output_channels(node, weight)
        at_once = max(1, _WEIGHTS_AT_ONCE // rows.shape[1])
        return np.concatenate(
            [
                rows[start : start + at_once].astype(np.float64) @ mean
                for start in range(0, len(rows), at_once)
            ]
        )
    weight = weight.astype(np.float64)
    if coverage.ndim:
        weight *= coverage
    taps = view_input_channels(node, weight, 1)
    by_channel = taps[..., 0] if taps.shape[3] == 1 else taps.sum(axis=3)
    sums: NDArray[np.float64] = np.einsum(
        "goi,gi->go", by_channel, mean.reshape(len(by_channel), -1)
    )
    return sums.reshape(-1)
