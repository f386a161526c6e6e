"""What about a QLinear operator does no integer kernel express? It is left to its runtime, and the reason told."""

from __future__ import annotations

from ptq.nodes import Node, attributes, constant
from ptq.opspec import OpSpec, Role
from ptq.steps.forms import Operands


def peculiarity(node: Node, spec: OpSpec, operands: Operands) -> str:
    """Why the operator is left to its runtime; nothing where a kernel expresses it."""
    if attributes(node).get("channels_last", 0):
        return "its channels are last"
    if operands.rest:
        return f"it has a further input, {operands.rest[0].name}"
    for position, (integers, _, _) in operands.triples.items():
        fixed = spec.role(position) is Role.WEIGHT and not spec.two_activations
        if fixed and constant(integers) is None:
            return f"weight {integers.name} is not constant"
    for position, bias in operands.biases.items():
        if bias is None or spec.role(position) is not Role.BIAS:
            continue
        array = constant(bias)
        if array is None:
            return f"bias {bias.name} is not constant"
        if array.size != 1 and array.size != array.shape[-1]:
            return f"bias {bias.name} is not one value a column"
    return ""
