"""How long does ONNX Runtime take for a node, in float and on integers?

In passes: the time of quantizing one element, 0.2 ns. Measured on ONNX Runtime 1.31.1, one thread, AVX512 with VNNI,
on convolutions of 1 to 672 channels. An integer convolution multiplies four times as fast as a float one, both whole
blocks of output channels at a time, but gathers what it multiplies pixel by pixel, which costs more than the products
where channels are few, or not a multiple of four, and group by group, by far the most where a group has few. A
depthwise one has nothing to gain, and loses where channels are few. An integer pool that does not stand between
convolutions runs channels first, one element after the other. Float convolutions keep channels in blocks, from and to
which tensors are reordered. Of few rows or pixels a product takes as long as its weights take to read, four bytes
each in float and one in integers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ptq.core.opspec import AS_LOOKUP_TABLE, RUNS_ON_INTEGERS, OpSpec
from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    Value,
    attributes_of,
    constant_of,
    consumers_of,
    name_of,
    operator_of,
    shape_of,
)

VIEWS = frozenset(["Flatten", "Identity", "Reshape", "Shape", "Squeeze", "Unsqueeze"])
_UNKNOWN_DIM = 64
"""What a dimension that varies is taken to be; the first one, the batch, counts as 1."""
_BLOCK = 16
"""float32 numbers in a register, and columns of an integer product."""
CHANNELS_FIRST_POOL = 50.0
"""Passes of an integer pool that runs channels first, for each element it makes, whatever its window."""
KERNEL_OVERHEAD = 3_000.0
"""Passes that it takes to run a kernel at all, 0.6 µs."""
_STRIDED_OPS = frozenset(["AveragePool", "Conv", "MaxPool"])


@dataclass(frozen=True)
class KernelCost:
    """Passes of a node."""

    float_cost: float
    integer_cost: float


@dataclass(frozen=True)
class TensorSizes:
    """The elements of tensors, varying dimensions estimated.

    Attributes:
        parts: Of a tensor's varying pixels, the share that strides have left, by name.
        rows: What a varying first dimension is taken to be where it is more than the batch, by name.
    """

    pixel_share: Mapping[str, float]
    first_dims: Mapping[str, float]

    def __call__(self, value: Value | None) -> float:
        """The elements of a tensor; 1 where nothing is known."""
        shape = None if value is None else shape_of(value)
        if value is None or not shape:
            return 1.0
        name = name_of(value)
        varying = sum(d is None for d in shape[1:])
        part = self.pixel_share.get(name, 1.0) if varying else 1.0
        part *= self.first_dims.get(name, 1.0) if shape[0] is None else 1.0
        return max(
            float(math.prod(d or 1 for d in shape)) * float(_UNKNOWN_DIM**varying) * part, 1.0
        )


def estimate_sizes(graph: Graph) -> TensorSizes:
    """Follow strides, and what views make part of the first dimension, from the inputs on."""
    parts: dict[str, float] = {}
    rows: dict[str, float] = {}
    size = TensorSizes(parts, rows)
    for node in graph.nodes:
        before = [name_of(v) for v in node.inputs if v is not None and constant_of(v) is None]
        part = max((parts.get(name, 1.0) for name in before), default=1.0)
        if operator_of(node) in _STRIDED_OPS:
            part /= math.prod(attributes_of(node).get("strides", (1,)))
        elif operator_of(node) == "ConvTranspose":
            part *= math.prod(attributes_of(node).get("strides", (1,)))
        elif operator_of(node) == "Resize" and len(node.inputs) > 2:
            scales = constant_of(node.inputs[2])
            part *= 1.0 if scales is None or not scales.size else float(scales.prod())
        parts.update((name_of(v), part) for v in node.outputs)
        row = max((rows.get(name, 1.0) for name in before), default=1.0)
        for value in node.outputs:
            if (shape_of(value) or (1,))[0] is None:
                views = operator_of(node) in VIEWS
                rows[name_of(value)] = size(node.inputs[0]) / size(value) if views else row
    return size


def kernel_cost(
    node: Node, spec: OpSpec, size: TensorSizes, call: float = KERNEL_OVERHEAD
) -> KernelCost:
    """What the node costs, where running a kernel takes ``call`` passes, an integer product twice as many."""
    weight = constant_of(node.inputs[1]) if len(node.inputs) > 1 else None
    x, y = size(node.inputs[0]), size(node.outputs[0])
    if spec.op == "Conv" and weight is not None and weight.shape[0]:
        groups = int(attributes_of(node).get("group", 1))
        own = _conv_cost(weight.shape, groups, x, y)
        return KernelCost(own.float_cost + call, own.integer_cost + 2 * call)
    if spec.op in ("Gemm", "MatMul") and weight is not None and weight.ndim > 1:
        summed = weight.shape[-1 if attributes_of(node).get("transB", 0) else -2]
        own = _matmul_cost(x * weight.size / max(summed, 1), weight.size)
        return KernelCost(own.float_cost + call, own.integer_cost + 2 * call)
    largest = max(map(size, (*node.inputs, *node.outputs)))
    if spec.op in VIEWS:
        return KernelCost(0.0, 0.0)
    if spec.op == "MaxPool" and all(operator_of(n) in VIEWS for n in consumers_of(node.outputs[0])):
        return KernelCost(largest * 1.5 + call, y * CHANNELS_FIRST_POOL + call)
    return KernelCost(largest * 1.5 + call, largest * _integer_cost_per_element(node, spec) + call)


def _matmul_cost(products: float, weights: float) -> KernelCost:
    """What it takes to multiply, and to read the weights from where a large cache or memory holds them."""
    return KernelCost(products * 0.09 + weights * 0.3, products * 0.024 + weights * 0.15)


def _conv_cost(weight: tuple[int, ...], groups: int, x: float, y: float) -> KernelCost:
    """What a convolution of weights (outputs, depth, kernel…) costs that makes y elements of x."""
    outputs, depth, taps = weight[0], weight[1], math.prod(weight[2:])
    pixels = y / outputs
    reordered = 0.3 * (x + y)
    if depth == 1 and outputs == groups:
        real = pixels * taps * _round_up_to_block(outputs) * 0.11
        integer = pixels * taps * (4.5 + 0.18 * outputs + 5 * (outputs % 8))
        return KernelCost(real + reordered, integer)
    blocks = _round_up_to_block(outputs // groups) * groups
    if groups > 1:
        gathered = groups * taps * 21.0
    elif taps == 1:
        gathered = 25.0 if depth % 4 or outputs < _BLOCK else 10.0
    else:
        gathered = taps * 11.0 if depth % 4 else taps * 4.0 + (60.0 if outputs < _BLOCK else 0.0)
    shallow = 3 * depth if taps == 1 else depth  # channels first, to blocks
    products = pixels * taps * blocks
    deep = products * (_round_up_to_block(depth) if depth >= _BLOCK else shallow)
    real = _matmul_cost(deep, math.prod(weight)).float_cost
    integer = _matmul_cost(products * depth, math.prod(weight)).integer_cost
    return KernelCost(real + reordered, integer + pixels * gathered + 0.25 * y)


def _round_up_to_block(channels: int) -> int:
    """Channels filled up to what a register holds of them."""
    return -(-channels // _BLOCK) * _BLOCK


def _integer_cost_per_element(node: Node, spec: OpSpec) -> float:
    """The passes of an operator on integers, by element."""
    if spec.op == "AveragePool":
        return 6.0
    if spec.op == "HardSwish":  # a sum and a product
        return 2.3
    return (
        0.25
        if spec.qlinear is RUNS_ON_INTEGERS
        else 3.0
        if spec.qlinear is AS_LOOKUP_TABLE
        else 1.0
    )
