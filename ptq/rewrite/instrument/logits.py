"""Graph whose outputs are the logits: the numbers from which the last Softmax or Sigmoid computes probabilities.

If a sample is clear, a Softmax or Sigmoid hides any error of its input. A few unclear samples would then decide
which of two models is closer to float. On the logits, all samples count. The inputs of a last Concat become separate
outputs for the same reason: the input with the largest numbers would hide the errors of the others.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from ptq.model.graph import Graph
from ptq.model.node import Node, Value, is_constant, name_of, operator_of

_PROBABILITY_OPS = frozenset(["Softmax", "LogSoftmax", "Sigmoid"])
_DATA_MOVEMENT_OPS = frozenset(
    ["Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose"]
)


def logits_graph(graph: Graph) -> Graph:
    """A graph whose outputs are the logits; the graph itself if its outputs are not probabilities.

    The input of a last Softmax, LogSoftmax or Sigmoid replaces it. The inputs of a last Concat replace it too,
    because next to boxes in pixels the errors of scores would not count.
    """
    return _with_outputs(graph, logits_of)


def segments_graph(graph: Graph) -> Graph:
    """A graph whose outputs are the inputs of last Concats, probabilities as they are; else the graph itself.

    Scores of many boxes are nearly all background, whose logits are large and decide nothing. As probabilities, the
    few objects count.
    """
    return _with_outputs(graph, list_segments)


def _with_outputs(graph: Graph, parts_of: Callable[[Value], list[Value]]) -> Graph:
    found = {name_of(value): [name_of(v) for v in parts_of(value)] for value in graph.outputs}
    if all([before] == after for before, after in found.items()):
        return graph
    changed = graph.copy()
    made = (value for node in changed.nodes for value in node.outputs)
    values = {name_of(value): value for value in (*made, *changed.outputs)}
    for before, parts in found.items():
        for name in parts:
            values[name].type = values[name].type or values[before].type
    changed.set_outputs([values[name] for name in dict.fromkeys(itertools.chain(*found.values()))])
    return changed


def logits_of(output: Value) -> list[Value]:
    """The logits of an output, one tensor for each input of a Concat; the output itself if it has none."""
    segments = segments_of(output)
    if segments != [output]:
        return [logits for value in segments for logits in logits_of(value)]
    node = _skip_movement(output)
    if node is None or operator_of(node) not in _PROBABILITY_OPS or node.inputs[0] is None:
        return [output]
    return [node.inputs[0]] if _is_computed(node.inputs[0]) else [output]


def list_segments(output: Value) -> list[Value]:
    """The inputs of last Concats, also of one before another: detectors join levels, and boxes with scores."""
    segments = segments_of(output)
    if segments == [output]:
        return segments
    return [inner for value in segments for inner in list_segments(value)]


def segments_of(output: Value) -> list[Value]:
    """The inputs of the Concat that computes an output; the output itself if no Concat does."""
    node = _skip_movement(output)
    if node is None or operator_of(node) != "Concat":
        return [output]
    return [value for value in node.inputs if value is not None and _is_computed(value)] or [output]


def _skip_movement(value: Value) -> Node | None:
    """The node that computes a value, before nodes that only move it."""
    node = value.producer()
    while node is not None and operator_of(node) in _DATA_MOVEMENT_OPS and node.inputs[0]:
        node = node.inputs[0].producer()
    return node


def _is_computed(value: Value) -> bool:
    return not is_constant(value) and value.producer() is not None
