"""Bisection for the node, or the end of a network, that makes a quantized model fail its check.

Each round quantizes the model with the first n nodes in integers, and bisects over n. It works for any failure.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptq.optimization.self_check.checks import CheckReference, check, list_integer_nodes
from ptq.solver.quantizer import QuantizedModel, quantize_with


def find_first_failing_node(quantized: QuantizedModel, against: CheckReference) -> str:
    """The node that makes the check fail when it and all nodes before it are in integers."""
    names = list_integer_nodes(quantized)
    return names[_find_longest_passing_prefix(quantized, against, names)]


def find_failing_ends(quantized: QuantizedModel, against: CheckReference) -> list[list[str]]:
    """The shortest tail and the shortest head of the network that make the check pass when they are float."""
    names = list_integer_nodes(quantized)
    return [
        order[_find_longest_passing_prefix(quantized, against, order) :]
        for order in (names, names[::-1])
    ]


def _find_longest_passing_prefix(
    quantized: QuantizedModel, against: CheckReference, names: Sequence[str]
) -> int:
    """How many of the first nodes can be in integers, the rest in float, for the check to pass; less than all."""
    passing, failing = 0, len(names)
    while failing - passing > 1:
        middle = (passing + failing) // 2
        rest = dict.fromkeys(names[middle:], "")
        candidate = quantize_with(quantized.calibrated_model, quantized.recipe, floats=rest)
        if check(candidate, against) is None:
            passing = middle
        else:
            failing = middle
    return passing
