"""Float model with rounded activations whose scales are graph inputs: one model for any choice of ranges."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.plan import Plan
from ptq.core.types import QuantParams
from ptq.model.graph import Graph
from ptq.model.node import Value, get_name, get_node_name, get_operator, is_constant
from ptq.rewrite.emit.bias_correction import is_correctable
from ptq.rewrite.emit.to_qdq import to_qdq


@dataclass(frozen=True, eq=False)
class AdjustableScales:
    """A model whose scales can be set at run time.

    Attributes:
        graph: The model; weights and biases are float.
        inputs: By tensor, the names of the inputs for its scale and its zero point.
        mean_shifts: By tensor, the name of the input for the shift of its mean by rounding; it is subtracted before
            nodes whose bias would be corrected for it.
    """

    graph: Graph
    inputs: Mapping[str, tuple[str, str]]
    mean_shifts: Mapping[str, str]

    def feed(self, params: Mapping[str, QuantParams]) -> dict[str, NDArray[Any]]:
        """The arrays for the inputs of scales and zero points."""
        feed: dict[str, NDArray[Any]] = {}
        for name, (scale, zero_point) in self.inputs.items():
            p = params[name]
            feed[scale], feed[zero_point] = p.scale, p.zero_point.astype(p.qtype.dtype)
        return feed


def make_scales_inputs(
    graph: Graph, plan: Plan, tensors: Collection[str], summed: Collection[str]
) -> AdjustableScales:
    """Round the activations that a plan rounds.

    Args:
        graph: The prepared float model.
        plan: Its plan.
        tensors: Activations whose parameters become inputs; the other parameters stay those of the plan.
        summed: Activations with channel means; the biases of their readers are corrected.
    """
    bare = replace(plan, operands={}, edges={}, folded={}, clamps={}, boundaries={})
    rounded = to_qdq(graph, bare, fixed_scales=False)
    inputs: dict[str, tuple[str, str]] = {}
    constants: dict[str, Value] = {}
    for node in rounded.nodes:
        if get_operator(node) != "QuantizeLinear":
            continue
        real, scale, zero_point = (*node.inputs, None)[:3]
        if real is None or is_constant(real):
            continue
        name = get_name(real)
        if name in tensors and scale is not None and zero_point is not None:
            inputs[name] = get_name(scale), get_name(zero_point)
            constants |= {get_name(scale): scale, get_name(zero_point): zero_point}
    shifts = _insert_mean_shifts(graph, rounded, plan, [name for name in inputs if name in summed])
    for constant in (*constants.values(), *shifts.values()):
        rounded.make_input(constant, 0)
    return AdjustableScales(rounded, inputs, {name: get_name(v) for name, v in shifts.items()})


def _insert_mean_shifts(
    graph: Graph, rounded: Graph, plan: Plan, tensors: Collection[str]
) -> dict[str, Value]:
    """Subtract a number from each of the tensors before nodes whose biases can be corrected; it by tensor."""
    rounded_nodes = {node.name: node for node in rounded.nodes}
    numbers: dict[str, Value] = {}
    for node in graph.nodes:
        first = node.inputs[0] if node.inputs else None
        reader, weight = rounded_nodes.get(node.name), plan.find_weight_qparams(get_node_name(node))
        if first is None or first.name not in tensors or reader is None or weight is None:
            continue
        if not is_correctable(node):
            continue
        name = get_name(first)
        if name not in numbers:
            numbers[name] = rounded.add_constant(np.zeros((), np.float32), f"{name}_shift")
        shifted = rounded.insert(
            "Sub", [reader.inputs[0], numbers[name]], before=reader, output=f"{name}_shifted"
        )
        reader.replace_input_with(0, shifted)
    return numbers
