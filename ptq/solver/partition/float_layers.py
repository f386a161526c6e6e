"""Layers that OpenVINO computes faster in float: small first layers, and layers of one row.

OpenVINO fuses quantizers into the layers before and activations into the layers behind them. A layer in float costs
only its own time. Two kinds gain nothing from integers (measured in networks of `benchmarks/openvino_layers.py`):

* A convolution that reads an input of the model: nothing is before it into which its quantizer could be fused, and
  few channels fill few lanes of an integer product. It gains where it has many multiplications for each pixel.
* A layer of one row or one pixel, as in squeeze-and-excitation: it takes the time of reading its weights. In float
  these are four times as many bytes, which matters only if they are many.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from ptq.core.opspec import WEIGHT_INPUT, OpSpec, Role
from ptq.core.target import Target
from ptq.model.graph import Graph
from ptq.model.machine.processor import name_machine
from ptq.model.node import Node, get_node_name, get_operator, get_shape
from ptq.model.weights.layer_weights import count_output_channels
from ptq.solver.partition.cost_model import TensorSizes, estimate_sizes
from ptq.solver.partition.cost_table import compute_digest


@dataclass(frozen=True)
class LayerTimes:
    """Times in OpenVINO that decide which layers stay float; in nanoseconds where no other unit is named.

    Attributes:
        name: Name of the table, as plans record it.
        version: Version of OpenVINO that was measured.
        first_call: What a first layer on integers takes longer, whatever its size.
        first_input: The same for each element of its input, which is quantized by a kernel of its own.
        first_product: What it takes less for each multiplication.
        row_weights: Weights up to which a layer of one row is faster in float.
    """

    name: str
    version: str
    first_call: float
    first_input: float
    first_product: float
    row_weights: float

    @property
    def digest(self) -> str:
        """SHA-256 of all entries: equal for tables that decide alike."""
        return compute_digest(asdict(self))


OPENVINO_2026_4 = LayerTimes(
    "openvino-2026.4-x86", "2026.4.1",
    first_call=9_000.0, first_input=0.15, first_product=0.007, row_weights=2.0**13,
)  # fmt: skip
"""Fitted with the kernels for AMX and AVX512-VNNI; those for AVX2 decide alike."""


def get_layer_times(target: Target) -> LayerTimes | None:
    """The table that decides for the target; None for other targets, and for processors that were not measured."""
    measured = target.leaves_layers_float and name_machine() == "x86_64"
    return OPENVINO_2026_4 if measured else None


def find_layers_faster_in_float(
    graph: Graph, specs: Mapping[str, OpSpec], target: Target
) -> dict[str, str]:
    """The layers that had better stay float, with the reason; none if no other node would be left on integers.

    Args:
        graph: The prepared graph, shapes inferred.
        specs: Rows of the operator table for the nodes that could be quantized, by node name.
        target: The target to quantize for.
    """
    times = get_layer_times(target)
    if times is None:
        return {}
    size = estimate_sizes(graph)
    products = {name for name, spec in specs.items() if Role.WEIGHT in spec.input_roles}
    layers = [node for node in graph.nodes if node.name in products]
    reason = f"{target.source} computes it faster in float"
    found = {
        get_node_name(node): reason
        for node in layers
        if _is_faster_first(node, size, times) or _is_faster_row(node, size, times)
    }
    return found if len(found) < len(specs) else {}


def _is_faster_first(node: Node, size: TensorSizes, times: LayerTimes) -> bool:
    source, weight = node.inputs[0], node.inputs[WEIGHT_INPUT]
    shape = None if weight is None else get_shape(weight)
    if get_operator(node) != "Conv" or source is None or not source.is_graph_input() or not shape:
        return False
    products = size(node.outputs[0]) * math.prod(side or 1 for side in shape[1:])
    longer = times.first_call + times.first_input * size(source)
    return longer > times.first_product * products


def _is_faster_row(node: Node, size: TensorSizes, times: LayerTimes) -> bool:
    weight = node.inputs[WEIGHT_INPUT]
    shape = None if weight is None else get_shape(weight)
    if get_operator(node) == "ConvTranspose" or not shape:
        return False
    sides = tuple(side or 1 for side in shape)
    is_row = size(node.outputs[0]) == count_output_channels(node, sides)
    return is_row and math.prod(sides) <= times.row_weights
