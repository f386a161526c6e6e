"""Which input of a QLinear operator is what? Read off the order that its row gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ptq.nodes import Node, Value
from ptq.opspec import QLinear

Triple = tuple[Value, Value, Value | None]
"""Integers, scale and zero point."""


@dataclass(frozen=True, eq=False)
class Operands:
    """The inputs of one QLinear operator.

    Attributes:
        triples: By the float operator's input position.
        biases: Integers that have no scale of their own, by position; None where absent.
        output: The output's scale and zero point; None where it is real.
        rest: Inputs that the form has no word for.
    """

    triples: Mapping[int, Triple]
    biases: Mapping[int, Value | None]
    output: tuple[Value, Value | None] | None
    rest: tuple[Value, ...]


def positions(form: QLinear) -> dict[str, int]:
    """Where the inputs stand: ``0q 0s 0z`` for input 0, ``2=`` for a bias, ``ys yz`` for the output.

    Of a variadic form the first input alone.
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


def operands_of(node: Node, form: QLinear) -> Operands | None:
    """The operands of a node in that form; None where a required one is missing."""
    values, place = [*node.inputs], positions(form)
    end = len(place)
    if "*" in form.order:
        first = place["0q"]
        count = (len(values) - first) // 3
        place.update(
            (f"{i}{part}", first + 3 * i + k) for i in range(count) for k, part in enumerate("qsz")
        )
        end = first + 3 * count

    def at(name: str) -> Value | None:
        position = place.get(name, len(values))
        return values[position] if position < len(values) else None

    triples: dict[int, Triple] = {}
    for index in [int(name[:-1]) for name in place if name.endswith("q")]:
        integers, scale = at(f"{index}q"), at(f"{index}s")
        if integers is None or scale is None:
            return None
        triples[index] = integers, scale, at(f"{index}z")
    scale = at("ys")
    return Operands(
        triples=triples,
        biases={int(name[:-1]): at(name) for name in place if name.endswith("=")},
        output=None if scale is None else (scale, at("yz")),
        rest=tuple(v for v in values[end:] if v is not None),
    )
