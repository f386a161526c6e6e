"""The time that ONNX Runtime takes for a node, in float and on integers, estimated from a table of measured times.

What the measurements show:

* An integer convolution multiplies four times as fast as a float one. Both compute whole blocks of output channels.
* It gathers its inputs pixel by pixel. That costs more than the products where channels are few, or are not a
  multiple of four. It costs by far the most in groups of few channels.
* A depthwise convolution gains nothing on integers, and loses where channels are few.
* An integer pool outside convolutions runs channels first, one element after the other.
* Float convolutions keep channels in blocks; tensors are reordered to them and from them.
* With few rows or pixels a product takes the time of reading its weights: four bytes each in float, one in integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ptq.core.opspec import AS_LOOKUP_TABLE, RUNS_ON_INTEGERS, OpSpec
from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    Value,
    get_attributes,
    get_constant,
    get_constant_shape,
    get_name,
    get_operator,
    get_shape,
    is_constant,
    list_consumers,
)
from ptq.model.weights.layer_weights import count_summed_inputs
from ptq.model.weights.matrix_layout import is_single_channel
from ptq.rewrite.prepare.shape_inference import get_symbolic_shape
from ptq.solver.partition.cost_table import OrtCostTable
from ptq.solver.partition.kernel_key import build_kernel_key, get_kernel_kind

VIEWS = frozenset(["Flatten", "Identity", "Reshape", "Shape", "Squeeze", "Unsqueeze"])
"""Operators that only name the same bytes anew: they take no time."""
_UNKNOWN_DIM = 64
"""Assumed length of a dimension that varies. A first dimension that varies, the batch, counts as 1."""
_STRIDED_OPS = frozenset(["AveragePool", "Conv", "MaxPool"])


@dataclass(frozen=True)
class KernelCost:
    """Passes of a node in float and on integers."""

    float_cost: float
    integer_cost: float


@dataclass(frozen=True)
class TensorSizes:
    """Element counts of tensors, with estimates for dimensions that vary.

    Attributes:
        pixel_share: The share of pixels that strides leave, where the number of pixels varies, by tensor name.
        first_dims: The estimate for a varying first dimension that is not the batch itself, by tensor name.
    """

    pixel_share: Mapping[str, float]
    first_dims: Mapping[str, float]
    _known: dict[str, float] = field(default_factory=dict)

    def __call__(self, value: Value | None) -> float:
        """The number of elements of a tensor; 1 if its shape is unknown."""
        if value is None:
            return 1.0
        name = get_name(value)
        if name not in self._known:
            self._known[name] = self.estimate(value)
        return self._known[name]

    def estimate(self, value: Value) -> float:
        """The same, computed anew: estimates of varying dimensions may have been added."""
        shape = get_shape(value)
        if not shape:
            return 1.0
        name = get_name(value)
        varying = sum(d is None for d in shape[1:])
        share = self.pixel_share.get(name, 1.0) if varying else 1.0
        share *= self.first_dims.get(name, 1.0) if shape[0] is None else 1.0
        return max(
            float(math.prod(d or 1 for d in shape)) * float(_UNKNOWN_DIM**varying) * share, 1.0
        )


def estimate_sizes(graph: Graph) -> TensorSizes:
    """Estimate sizes from the inputs on, by the strides and by the views that merge axes into the first dimension."""
    shares: dict[str, float] = {}
    first_dims: dict[str, float] = {}
    size = TensorSizes(shares, first_dims)
    batches = {(get_symbolic_shape(value) or (1,))[0] for value in graph.inputs}
    for node in graph.nodes:
        before = [get_name(v) for v in node.inputs if v is not None and not is_constant(v)]
        share = max((shares.get(name, 1.0) for name in before), default=1.0)
        if get_operator(node) in _STRIDED_OPS:
            share /= math.prod(get_attributes(node).get("strides", (1,)))
        elif get_operator(node) == "ConvTranspose":
            share *= math.prod(get_attributes(node).get("strides", (1,)))
        elif get_operator(node) == "Resize" and len(node.inputs) > 2:
            scales = get_constant(node.inputs[2])
            share *= 1.0 if scales is None or not scales.size else float(scales.prod())
        shares.update((get_name(v), share) for v in node.outputs)
        for value in node.outputs:
            symbols = get_symbolic_shape(value) or (1,)
            if not isinstance(symbols[0], int) and symbols[0] not in batches:
                first_dims[get_name(value)] = _estimate_first_dim(node, value, size)
    return size


def _estimate_first_dim(node: Node, value: Value, size: TensorSizes) -> float:
    """The estimate for the varying first dimension of an output, which is not the batch itself.

    A view keeps the number of elements. Other operators keep the dimension of the inputs that name it alike; where
    none does, that of the inputs of the same rank.
    """
    if get_operator(node) in VIEWS and node.inputs[0] is not None:
        return size.estimate(node.inputs[0]) / size.estimate(value)
    shapes = {get_name(v): get_symbolic_shape(v) for v in node.inputs if v is not None}
    own = get_symbolic_shape(value) or ()
    alike = [name for name, shape in shapes.items() if shape and shape[0] == own[0]]
    sources = alike or [name for name, shape in shapes.items() if len(shape or ()) == len(own)]
    return max((size.first_dims.get(name, 1.0) for name in sources), default=1.0)


class GraphCosts:
    """The passes of the nodes of a graph, each estimated once.

    Attributes:
        table: Measured times.
    """

    def __init__(self, graph: Graph, table: OrtCostTable) -> None:
        self.table, self._graph = table, graph
        self._kernels: dict[Node, KernelCost] = {}
        self._uniform: dict[Node, KernelCost] = {}

    @cached_property
    def size(self) -> TensorSizes:
        """The number of elements of each tensor."""
        return estimate_sizes(self._graph)

    def estimate_kernels(
        self, nodes: Mapping[str, Node], specs: Mapping[str, OpSpec]
    ) -> dict[str, KernelCost]:
        """`price_kernel` of each node."""
        return self._estimate(price_kernel, self._kernels, nodes, specs)

    def estimate_uniform(
        self, nodes: Mapping[str, Node], specs: Mapping[str, OpSpec]
    ) -> dict[str, KernelCost]:
        """`price_uniformly` of each node."""
        return self._estimate(price_uniformly, self._uniform, nodes, specs)

    def _estimate(
        self,
        estimate: Callable[[Node, OpSpec, TensorSizes, OrtCostTable], KernelCost],
        known: dict[Node, KernelCost],
        nodes: Mapping[str, Node],
        specs: Mapping[str, OpSpec],
    ) -> dict[str, KernelCost]:
        for name, node in nodes.items():
            if node not in known:
                known[node] = estimate(node, specs[name], self.size, self.table)
        return {name: known[node] for name, node in nodes.items()}


def price_kernel(node: Node, spec: OpSpec, size: TensorSizes, costs: OrtCostTable) -> KernelCost:
    """The passes of a node: those of its kernel where it was timed, else by all that was measured of its operator."""
    timed = costs.kernels.get(build_kernel_key(node) or "") if costs.kernels else None
    if timed is not None:
        return KernelCost(*timed)
    own = estimate_cost(node, spec, size, costs)
    scale = costs.scales.get(get_kernel_kind(node)) if costs.scales else None
    if scale is None:
        return own
    return KernelCost(own.float_cost * scale[0], own.integer_cost * scale[1])


def estimate_cost(node: Node, spec: OpSpec, size: TensorSizes, costs: OrtCostTable) -> KernelCost:
    """The passes of a node by the formulas, on the machine that they were fitted on."""
    weight = get_constant_shape(node.inputs[1]) if len(node.inputs) > 1 else None
    x, y = size(node.inputs[0]), size(node.outputs[0])
    call = costs.kernel_call
    if spec.op == "Conv" and weight is not None and weight[0]:
        groups = int(get_attributes(node).get("group", 1))
        own = _estimate_conv(weight, groups, x, y, costs)
        return _with_calls(own, costs)
    if spec.op in ("Gemm", "MatMul") and weight is not None and len(weight) > 1:
        summed, values = count_summed_inputs(node, weight), math.prod(weight)
        own = _estimate_matmul(x * values / max(summed, 1), values, costs)
        return _with_calls(own, costs)
    if spec.op in VIEWS:
        return KernelCost(0.0, 0.0)
    largest = find_largest_tensor(node, size)
    in_float = largest * costs.float_operator + call
    if spec.op == "MaxPool" and all(
        get_operator(n) in VIEWS for n in list_consumers(node.outputs[0])
    ):
        return KernelCost(in_float, y * costs.channels_first_pool + call)
    if spec.op == "AveragePool":
        return KernelCost(in_float, largest * costs.integer_average_pool + call)
    if spec.op == "HardSwish":
        return KernelCost(in_float, largest * costs.integer_hard_swish + call)
    return KernelCost(in_float, largest * _get_integer_operator_cost(spec, costs) + call)


def price_uniformly(node: Node, spec: OpSpec, size: TensorSizes, costs: OrtCostTable) -> KernelCost:
    """The passes of a node by the kind of its operator alone, without kernel calls."""
    largest = find_largest_tensor(node, size)
    in_float = 0.0 if get_operator(node) in VIEWS else costs.float_operator * largest
    return KernelCost(in_float, _get_integer_operator_cost(spec, costs) * largest)


def find_largest_tensor(node: Node, size: TensorSizes) -> float:
    """The number of elements of the largest tensor that the node reads or writes."""
    return max(map(size, (*node.inputs, *node.outputs)))


def _with_calls(own: KernelCost, costs: OrtCostTable) -> KernelCost:
    call = costs.kernel_call
    return KernelCost(own.float_cost + call, own.integer_cost + costs.integer_product_calls * call)


def _estimate_matmul(products: float, weights: float, costs: OrtCostTable) -> KernelCost:
    """The passes to multiply, and to read the weights from a large cache or memory."""
    return KernelCost(
        products * costs.float_product + weights * costs.float_weight,
        products * costs.integer_product + weights * costs.integer_weight,
    )


def _estimate_conv(
    weight: tuple[int, ...], groups: int, x: float, y: float, costs: OrtCostTable
) -> KernelCost:
    """The passes of a convolution.

    Args:
        weight: Shape of the weight: outputs, depth, kernel axes.
        groups: Number of groups.
        x: Elements of the input.
        y: Elements of the output.
        costs: Measured times.
    """
    outputs, depth, taps = weight[0], weight[1], math.prod(weight[2:])
    pixels = y / outputs
    reordered = costs.float_conv_reorder * (x + y)
    if is_single_channel(weight, groups):
        in_float = pixels * taps * _round_to_blocks(outputs, costs) * costs.float_depthwise
        return KernelCost(
            in_float + reordered, pixels * taps * _estimate_depthwise_tap(outputs, costs)
        )
    products = pixels * taps * (_round_to_blocks(outputs // groups, costs) * groups)
    if depth >= costs.block:
        float_depth = _round_to_blocks(depth, costs)
    else:
        float_depth = costs.float_pointwise_depth * depth if taps == 1 else depth
    weights = math.prod(weight)
    in_float = _estimate_matmul(products * float_depth, weights, costs).float_cost
    in_integers = _estimate_matmul(products * depth, weights, costs).integer_cost
    gathered = pixels * _estimate_gather(outputs, depth, taps, groups, costs)
    return KernelCost(in_float + reordered, in_integers + gathered + costs.integer_conv_output * y)


def _estimate_depthwise_tap(channels: int, costs: OrtCostTable) -> float:
    """The passes of a depthwise integer convolution for one tap of all channels, for each output pixel."""
    return (
        costs.depthwise_tap
        + costs.depthwise_tap_channel * channels
        + costs.depthwise_tap_odd_channel * (channels % costs.depthwise_channels)
    )


def _estimate_gather(
    outputs: int, depth: int, taps: int, groups: int, costs: OrtCostTable
) -> float:
    """The passes of an integer convolution to gather the inputs of one output pixel."""
    aligned, few = depth % costs.gather_depth == 0, outputs < costs.block
    if groups > 1:
        return groups * taps * costs.gather_group_tap
    if taps == 1:
        return costs.gather_point if aligned and not few else costs.gather_point_unaligned
    if not aligned:
        return taps * costs.gather_tap_unaligned
    return taps * costs.gather_tap + (costs.gather_few_outputs if few else 0.0)


def _round_to_blocks(channels: int, costs: OrtCostTable) -> int:
    return -(-channels // costs.block) * costs.block


def _get_integer_operator_cost(spec: OpSpec, costs: OrtCostTable) -> float:
    if spec.qlinear is RUNS_ON_INTEGERS:
        return costs.integer_data_movement
    return costs.lookup_table if spec.qlinear is AS_LOOKUP_TABLE else costs.integer_operator
