"""Concats at the end of a model whose inputs have ranges too different for one scale.

Detectors concatenate boxes in pixels and scores up to 1 into one output. In 8 bits over both, one LSB is more than a
score. Between layers an input of small range matters as little as its values; in an output it is a result by itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from ptq.core.opspec import RUNS_ON_INTEGERS
from ptq.model.graph import Graph
from ptq.model.node import (
    Value,
    get_constant,
    get_name,
    get_node_name,
    get_operator,
    get_spec,
    list_consumers,
)
from ptq.observers import TensorStats

_MAX_RANGE_RATIO = 16
"""An input with 1/16 of the range keeps four of eight bits."""


def find_concats_with_unlike_ranges(
    graph: Graph, stats: Mapping[str, TensorStats]
) -> dict[str, str]:
    """Concats that only outputs read and whose inputs have too different ranges, with the reason."""
    found = {}
    for node in graph.nodes:
        if get_operator(node) != "Concat" or not _is_only_for_outputs(node.outputs[0]):
            continue
        lengths = {}
        for value in node.inputs:
            length = None if value is None else _find_range_length(value, stats)
            if value is not None and length:
                lengths[get_name(value)] = length
        if not lengths:
            continue
        widest, finest = (
            max(lengths, key=lengths.__getitem__),
            min(lengths, key=lengths.__getitem__),
        )
        if lengths[widest] > _MAX_RANGE_RATIO * lengths[finest]:
            found[get_node_name(node)] = (
                f"joins {widest} and {finest}, whose range is less than 1/{_MAX_RANGE_RATIO} of that"
            )
    return found


def _is_only_for_outputs(value: Value) -> bool:
    """Whether the value reaches only outputs of the model, through data movement at most."""
    for node in list_consumers(value):
        spec = get_spec(node)
        if (
            spec is None
            or spec.qlinear is not RUNS_ON_INTEGERS
            or not all(map(_is_only_for_outputs, node.outputs))
        ):
            return False
    return value.is_graph_output() or bool(value.uses())


def _find_range_length(value: Value, stats: Mapping[str, TensorStats]) -> float | None:
    """The length of the range with 0 in it; None if it is unknown."""
    observed, array, maker = stats.get(get_name(value)), get_constant(value), value.producer()
    if array is not None and array.size:
        return float(max(array.max(), 0) - min(array.min(), 0))
    if observed is not None and observed.count:
        return max(observed.max, 0.0) - min(observed.min, 0.0)
    return 1.0 if maker is not None and get_operator(maker) in ("Sigmoid", "Softmax") else None
