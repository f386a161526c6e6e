"""Corrects biases for the mean error that rounded weights and a rounded input make.

With weights W rounded to Ŵ and an input x rounded to x̂, the mean of an output channel shifts by
Σ Ŵ · E[x̂] − Σ W · E[x]; the bias takes it back (Nagel et al. 2019, "Data-Free Quantization Through Weight
Equalization and Bias Correction", section 4.2, with the means observed). E[x̂ − x] is known by channel where samples
were read again once ranges were set, else one number for the whole tensor, from its statistics; a tap counts for the
share of the output positions at which it falls inside the input.
Where the sizes vary, so does that share, and a convolution with padding is left as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.plan import Plan
from ptq.model.graph import Graph
from ptq.model.node import Node, attributes_of, constant_of, name_of, operator_of, shape_of
from ptq.observers.input_means import InputMean

CORRECTABLE_OPS = ("Conv", "Gemm")


def channel_axes(graph: Graph) -> dict[str, int]:
    """The tensors whose channel means bias correction needs, with their channel axis."""
    return {
        name_of(value): 1
        for node in graph.nodes
        if operator_of(node) in CORRECTABLE_OPS
        and (value := node.inputs[0])
        and constant_of(value) is None
    }


def is_correctable(node: Node) -> bool:
    """Whether the node's bias can be corrected, once the means of its input are known."""
    weight, bias = (constant_of(node.inputs[i]) if len(node.inputs) > i else None for i in (1, 2))
    correct = operator_of(node) in CORRECTABLE_OPS and weight is not None and bias is not None
    return correct and weight is not None and _tap_coverage(node, weight.shape) is not None


def correct_biases(
    graph: Graph,
    plan: Plan,
    means: Mapping[str, InputMean],
    rounded: Mapping[str, NDArray[Any]] | None = None,
    added: Mapping[str, NDArray[np.float64]] | None = None,
) -> tuple[Graph, int]:
    """The graph with corrected biases, and how many nodes that concerned.

    Args:
        graph: The prepared graph.
        plan: Its plan; only weights that it quantizes make an error.
        means: Of the tensors of `channel_axes`, as far as they are known.
        rounded: Weights by node where they are not rounded to the nearest.
        added: By node, what quantizing adds to the mean of each channel of its input, where that is known better
            than for the tensor as a whole.
    """
    corrected, count = graph.copy(), 0
    for node in corrected.nodes:
        first = node.inputs[0] if node.inputs else None
        if operator_of(node) in CORRECTABLE_OPS and first is not None and name_of(first) in means:
            weight = (rounded or {}).get(node.name or "")
            mean = means[name_of(first)]
            of_channels = (added or {}).get(node.name or "")
            mean = mean if of_channels is None else replace(mean, mean_shift=of_channels)
            count += _correct_bias(corrected, node, plan, mean, weight)
    return corrected, count


def _correct_bias(
    graph: Graph, node: Node, plan: Plan, mean: InputMean, rounded: NDArray[Any] | None
) -> bool:
    assert node.name
    weight, bias = node.inputs[1], node.inputs[2] if len(node.inputs) > 2 else None
    array, values = constant_of(weight), constant_of(bias)
    params = plan.operands.get((node.name, 1))
    if array is None or values is None or bias is None or params is None:
        return False
    inside = _tap_coverage(node, array.shape)
    if inside is None:
        return False
    if rounded is None:
        rounded = params.dequantize(params.quantize(array))
    shift = _output_means(
        node, rounded.astype(np.float64) * inside, mean.float_mean + mean.mean_shift
    )
    shift = shift - _output_means(node, array * inside, mean.float_mean)
    new = (values.astype(np.float64).reshape(-1) - shift).reshape(values.shape)
    hint = f"{bias.name}_corrected"
    node.replace_input_with(2, graph.add_constant(new.astype(values.dtype), hint))
    return True


def _tap_coverage(node: Node, weight: tuple[int, ...]) -> NDArray[np.float64] | None:
    """The share of output positions at which each tap falls inside the input; None where it is not known."""
    attrs, kernel = attributes_of(node), weight[2:]
    pads = tuple(attrs.get("pads", (0,) * 2 * len(kernel)))
    if operator_of(node) == "Gemm" or (
        not any(pads) and attrs.get("auto_pad", "NOTSET") == "NOTSET"
    ):
        return np.ones(())
    shape = shape_of(node.inputs[0]) if node.inputs[0] is not None else None
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


def _output_means(
    node: Node, weight: NDArray[Any], mean: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The mean of each output channel that the weight makes of the means of its inputs."""
    attrs, weight = attributes_of(node), weight.astype(np.float64)
    if operator_of(node) == "Gemm":
        columns: NDArray[np.float64] = (weight if attrs.get("transB") else weight.T) @ mean
        return columns
    groups = int(attrs.get("group", 1))
    taps = weight.reshape(groups, -1, weight.shape[1], int(np.prod(weight.shape[2:]))).sum(axis=3)
    sums: NDArray[np.float64] = np.einsum("goi,gi->go", taps, mean.reshape(groups, -1))
    return sums.reshape(-1)
