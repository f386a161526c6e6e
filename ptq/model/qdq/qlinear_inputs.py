"""Roles of the inputs of a QLinear operator, from the input order in its row of the operator table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ptq.core.opspec import OpSpec, QLinearForm, Role
from ptq.model.node import Node, Value, get_attributes, get_constant, is_constant


def explain_float_qlinear(node: Node, spec: OpSpec, operands: QLinearOperands) -> str:
    """Why no kernel computes the operator; empty if one does."""
    if get_attributes(node).get("channels_last", 0):
        return "its layout is channels last"
    if operands.unknown_inputs:
        return f"it has an unknown input, {operands.unknown_inputs[0].name}"
    for position, (integers, _, _) in operands.triples.items():
        fixed = spec.role_of(position) is Role.WEIGHT and not spec.two_activations
        if fixed and not is_constant(integers):
            return f"weight {integers.name} is not constant"
    for position, bias in operands.biases.items():
        if bias is None or spec.role_of(position) is not Role.BIAS:
            continue
        array = get_constant(bias)
        if array is None:
            return f"bias {bias.name} is not constant"
        if array.size != 1 and array.size != array.shape[-1]:
            return f"bias {bias.name} does not have one value for each column"
    return ""


QuantizedOperand = tuple[Value, Value, Value | None]
"""Integers, scale and zero point."""


@dataclass(frozen=True, eq=False)
class QLinearOperands:
    """The inputs of one QLinear operator.

    Attributes:
        triples: Quantized operands, by the float operator's input position.
        biases: Integers without a scale of their own, by position; None for an absent one.
        output_qparams: Scale and zero point of the output; None for a float output.
        unknown_inputs: Inputs that the input order does not name.
    """

    triples: Mapping[int, QuantizedOperand]
    biases: Mapping[int, Value | None]
    output_qparams: tuple[Value, Value | None] | None
    unknown_inputs: tuple[Value, ...]


def list_input_positions(form: QLinearForm) -> dict[str, int]:
    """Position of each input: ``0q 0s 0z`` for input 0, ``2=`` for a bias, ``ys yz`` for the output.

    For a variadic form, only the first input is listed.
    """
    found: list[str] = []
    for token in form.order.split():
        if token == "y":
            found += ["ys", "yz"]
        elif token == "*":
            found += ["0q", "0s", "0z"]
        elif token[-1] in "=qsz":
            found.append(token)
        else:
            found += [f"{token}q", f"{token}s", f"{token}z"]
    return {name: position for position, name in enumerate(found)}


def read_operands(node: Node, form: QLinearForm) -> QLinearOperands | None:
    """Operands of a node of that form; None if a required one is missing."""
    values, place = [*node.inputs], list_input_positions(form)
    end = len(place)
    if "*" in form.order:
        first = place["0q"]
        count = (len(values) - first) // 3
        place.update(
            (f"{i}{kind}", first + 3 * i + k) for i in range(count) for k, kind in enumerate("qsz")
        )
        end = first + 3 * count

    def at(name: str) -> Value | None:
        position = place.get(name, len(values))
        return values[position] if position < len(values) else None

    triples: dict[int, QuantizedOperand] = {}
    for index in [int(name[:-1]) for name in place if name.endswith("q")]:
        integers, scale = at(f"{index}q"), at(f"{index}s")
        if integers is None or scale is None:
            return None
        triples[index] = integers, scale, at(f"{index}z")
    scale = at("ys")
    return QLinearOperands(
        triples=triples,
        biases={int(name[:-1]): at(name) for name in place if name.endswith("=")},
        output_qparams=None if scale is None else (scale, at("yz")),
        unknown_inputs=tuple(v for v in values[end:] if v is not None),
    )
