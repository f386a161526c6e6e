"""Which joined outputs hold parts too unlike for one scale?

Detectors join boxes in pixels and scores up to 1 into one output. In 8 bits over both, one step is more than a score.
Between layers a part that is small beside the others matters as little; at a model's end it is a result by itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from ptq.core.ops import OPS
from ptq.core.opspec import RUNS_ON_INTEGERS
from ptq.model.graph import Graph
from ptq.model.node import Value, constant_of, consumers_of, name_of, operator_of, spec_name
from ptq.observers import TensorStats

_MAX_RANGE_RATIO = 16
"""A part of a sixteenth of the range keeps four bits of eight."""


def concats_with_unlike_ranges(graph: Graph, stats: Mapping[str, TensorStats]) -> dict[str, str]:
    """The Concats that lead to nothing but outputs and join ranges too unlike, with the reason."""
    found = {}
    for node in graph.nodes:
        if operator_of(node) != "Concat" or not _leads_only_to_outputs(node.outputs[0]):
            continue
        spans = {
            name_of(value): _range_length(value, stats)
            for value in node.inputs
            if value is not None
        }
        known = {name: span for name, span in spans.items() if span}
        if not known:
            continue
        widest, finest = (pick(known, key=lambda name: known[name] or 0.0) for pick in (max, min))
        if (known[widest] or 0.0) > _MAX_RANGE_RATIO * (known[finest] or 0.0):
            found[node.name or ""] = (
                f"joins {widest} and {finest}, whose range is less than 1/{_MAX_RANGE_RATIO} of that"
            )
    return found


def _leads_only_to_outputs(value: Value) -> bool:
    """Whether the value goes nowhere but, moved at most, to outputs of the model."""
    for node in consumers_of(value):
        spec = OPS.get(spec_name(node))
        if (
            spec is None
            or spec.qlinear is not RUNS_ON_INTEGERS
            or not all(map(_leads_only_to_outputs, node.outputs))
        ):
            return False
    return value.is_graph_output() or bool(value.uses())


def _range_length(value: Value, stats: Mapping[str, TensorStats]) -> float | None:
    """The length of the range with 0 in it; None where nothing is known of it."""
    seen, array, maker = stats.get(name_of(value)), constant_of(value), value.producer()
    if array is not None and array.size:
        return float(max(array.max(), 0) - min(array.min(), 0))
    if seen is not None and seen.count:
        return max(seen.max, 0.0) - min(seen.min, 0.0)
    return 1.0 if maker is not None and operator_of(maker) in ("Sigmoid", "Softmax") else None
