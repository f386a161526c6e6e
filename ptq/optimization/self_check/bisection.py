"""Which node, or which end of a network, is a fault in, whatever the fault is?

By halves: of the first so many nodes in integers, how few still show it? What is measured is each time the model
quantized anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptq.optimization.self_check.checks import ReferenceOutputs, check, integer_nodes, quantize_with
from ptq.solver.quantizer import QuantizedModel


def first_failing_node(made: QuantizedModel, truth: ReferenceOutputs) -> str:
    """The node with which, the nodes before it being in integers, the fault appears."""
    names = integer_nodes(made)
    return names[_longest_passing_prefix(made, truth, names)]


def failing_ends(made: QuantizedModel, truth: ReferenceOutputs) -> list[list[str]]:
    """The shortest end of the network, and the shortest beginning, without whose integers the fault is not there."""
    names = integer_nodes(made)
    return [order[_longest_passing_prefix(made, truth, order) :] for order in (names, names[::-1])]


def _longest_passing_prefix(
    made: QuantizedModel, truth: ReferenceOutputs, names: Sequence[str]
) -> int:
    """How many of the first nodes may be in integers, the others being float; less than all."""
    sound, faulty = 0, len(names)
    while faulty - sound > 1:
        middle = (sound + faulty) // 2
        rest = dict.fromkeys(names[middle:], "")
        if check(quantize_with(made.calibrated_model, made.recipe, floats=rest), truth) is None:
            sound = middle
        else:
            faulty = middle
    return sound
