"""Graph whose outputs are the logits: the numbers from which the last Softmax or Sigmoid computes probabilities.

If a sample is clear, a Softmax or Sigmoid hides any error of its input. A few unclear samples would then decide
which of two models is closer to float. On the logits, all samples count. The inputs of a last Concat become separate
outputs for the same reason: the input with the largest numbers would hide the errors of the others.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence

from ptq.model.graph import Graph
from ptq.model.node import Node, Value, get_name, get_operator, is_constant

_PROBABILITY_OPS = frozenset(["Softmax", "LogSoftmax", "Sigmoid"])
_DATA_MOVEMENT_OPS = frozenset(
    ["Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose"]
)

_Path = tuple[tuple[str, int], ...]


def build_logits_graph(graph: Graph, cut: Collection[str] | None = None) -> Graph:
    """A graph whose outputs are the logits; the graph itself if its outputs are not probabilities.

    The input of a last Softmax, LogSoftmax or Sigmoid replaces it. The inputs of a last Concat replace it too,
    because next to boxes in pixels the errors of scores would not count.

    Args:
        graph: The graph.
        cut: Names of the outputs that are replaced; None for all.
    """
    return _with_outputs(graph, lambda v: find_logits(v) if cut is None or v.name in cut else [v])


def build_segments_graph(graph: Graph) -> Graph:
    """A graph whose outputs are the inputs of last Concats, probabilities as they are; else the graph itself.

    Scores of many boxes are nearly all background, whose logits are large and decide nothing. As probabilities, the
    few objects count.
    """
    return _with_outputs(graph, list_segments)


def find_common_cut(graphs: Sequence[Graph]) -> frozenset[str]:
    """Names of the outputs whose logits can be compared between graphs: the same nodes end in them in each.

    A rewrite may put nodes behind a Concat or a Softmax, as those that undo the scales of channels. What the Concat
    reads is then something else than before.

    Args:
        graphs: Rewrites of one graph, with outputs of the same names.
    """
    found = [
        {get_name(v): [path for _, path in _list_logits(v)] for v in graph.outputs}
        for graph in graphs
    ]
    cut = frozenset(
        name for name, paths in found[0].items() if all(f.get(name) == paths for f in found)
    )
    first, *others = (_list_repetitions(graph, cut) for graph in graphs)
    return cut if all(other == first for other in others) else frozenset()


def _list_repetitions(graph: Graph, cut: Collection[str]) -> list[int]:
    """For each tensor in place of an output, which is the first that is the same one."""
    parts = [p for v in graph.outputs for p in (find_logits(v) if v.name in cut else [v])]
    return [parts.index(part) for part in parts]


def _with_outputs(graph: Graph, parts_of: Callable[[Value], list[Value]]) -> Graph:
    found = {get_name(value): [get_name(v) for v in parts_of(value)] for value in graph.outputs}
    if all([before] == after for before, after in found.items()):
        return graph
    changed = graph.copy()
    made = (value for node in changed.nodes for value in node.outputs)
    values = {get_name(value): value for value in (*made, *changed.outputs)}
    for before, parts in found.items():
        for name in parts:
            values[name].type = values[name].type or values[before].type
    changed.set_outputs([values[name] for name in dict.fromkeys(itertools.chain(*found.values()))])
    return changed


def find_logits(output: Value) -> list[Value]:
    """The logits of an output, one tensor for each input of a Concat; the output itself if it has none."""
    return [value for value, _ in _list_logits(output)]


def _list_logits(output: Value) -> list[tuple[Value, _Path]]:
    """The logits of an output, each with the operators and inputs that lead to it, the last operator first."""
    return [_find_logits_of_segment(*found) for found in _list_segments(output)]


def _find_logits_of_segment(segment: Value, path: _Path) -> tuple[Value, _Path]:
    node = _skip_movement(segment)
    if node is None or get_operator(node) not in _PROBABILITY_OPS or node.inputs[0] is None:
        return segment, path
    if not _is_computed(node.inputs[0]):
        return segment, path
    return node.inputs[0], (*path, (get_operator(node), 0))


def list_segments(output: Value) -> list[Value]:
    """The inputs of last Concats, also of one before another: detectors join levels, and boxes with scores."""
    return [value for value, _ in _list_segments(output)]


def _list_segments(output: Value) -> list[tuple[Value, _Path]]:
    found, waiting = list[tuple[Value, _Path]](), [(output, _Path())]
    while waiting:
        value, path = waiting.pop()
        segments = find_segments(value)
        if segments == [value]:
            found.append((value, path))
            continue
        inner = [(part, (*path, ("Concat", index))) for index, part in enumerate(segments)]
        waiting += reversed(inner)
    return found


def find_segments(output: Value) -> list[Value]:
    """The inputs of the Concat that computes an output; the output itself if no Concat does."""
    node = _skip_movement(output)
    if node is None or get_operator(node) != "Concat":
        return [output]
    return [value for value in node.inputs if value is not None and _is_computed(value)] or [output]


def _skip_movement(value: Value) -> Node | None:
    """The node that computes a value, before nodes that only move it."""
    node = value.producer()
    while node is not None and get_operator(node) in _DATA_MOVEMENT_OPS and node.inputs[0]:
        node = node.inputs[0].producer()
    return node


def _is_computed(value: Value) -> bool:
    return not is_constant(value) and value.producer() is not None
