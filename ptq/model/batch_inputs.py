"""Which inputs of a model have the batch as their axis 0."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from ptq.model.graph import Graph
from ptq.model.node import Value, get_name, get_shape

Shapes = Mapping[str, tuple[int, ...]]
"""Shapes of a sample's arrays, by the name of the input."""


def find_batch_inputs(graph: Graph, sample: Shapes | None) -> list[Value]:
    """The inputs whose axis 0 is the batch; all of them if ``sample`` is None.

    The batch is axis 0 of the first input that leaves it open. An input whose name for it an output has too comes
    before the others. Another input has the batch if its axis 0 has the same name, or the same length in a sample.
    Without a sample it has the batch, unless another of its axes has the name.
    """
    ranked = [value for value in graph.inputs if get_shape(value)]
    ends = {_get_axis_name(value, 0) for value in graph.outputs if get_shape(value)} - {None}
    free = [value for value in ranked if (get_shape(value) or (1,))[0] is None]
    if sample is None or not free:
        return ranked
    first = min(free, key=lambda value: _get_axis_name(value, 0) not in ends)
    name, rows = _get_axis_name(first, 0), sample.get(get_name(first), ())[:1]

    def has_batch(value: Value) -> bool:
        if value is first or (name is not None and _get_axis_name(value, 0) == name):
            return True
        own = sample.get(get_name(value), ())[:1]
        if rows and own:
            return own == rows
        others = [_get_axis_name(value, axis) for axis in range(1, len(value.shape or ()))]
        return name is None or name not in others

    return [value for value in ranked if has_batch(value)]


def _get_axis_name(value: Value, axis: int) -> str | None:
    length = None if value.shape is None else value.shape[axis]
    return length.value if isinstance(length, ir.SymbolicDim) else None
