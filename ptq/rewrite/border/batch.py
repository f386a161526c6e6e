"""A batch of fixed size: axis 0 of inputs, and the axes of other tensors that have its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx_ir as ir
from numpy.typing import NDArray

from ptq.core.errors import ModelError, UsageError
from ptq.core.wording import OPEN_BATCH
from ptq.model.graph import Graph
from ptq.model.node import Value, name_of, shape_of

Shapes = Mapping[str, tuple[int, ...]]
"""Shapes of a sample's arrays, by the name of the input."""


def find_batch_inputs(graph: Graph, sample: Shapes | None) -> list[Value]:
    """The inputs whose axis 0 is the batch; all of them if ``sample`` is None.

    The batch is axis 0 of the first input that leaves it open, of those whose name for it an output has too if there
    are any. Another input has the batch if its axis 0 has the same name, or the same length in a sample. Without a
    sample it has the batch, unless another of its axes has the name.
    """
    ranked = [value for value in graph.inputs if shape_of(value)]
    ends = {_axis_name(value, 0) for value in graph.outputs if shape_of(value)} - {None}
    free = [value for value in ranked if (shape_of(value) or (1,))[0] is None]
    if sample is None or not free:
        return ranked
    first = min(free, key=lambda value: _axis_name(value, 0) not in ends)
    name, rows = _axis_name(first, 0), sample.get(name_of(first), ())[:1]

    def has_batch(value: Value) -> bool:
        if value is first or (name is not None and _axis_name(value, 0) == name):
            return True
        own = sample.get(name_of(value), ())[:1]
        if rows and own:
            return own == rows
        others = [_axis_name(value, axis) for axis in range(1, len(value.shape or ()))]
        return name is None or name not in others

    return [value for value in ranked if has_batch(value)]


def _axis_name(value: Value, axis: int) -> str | None:
    length = None if value.shape is None else value.shape[axis]
    return length.value if isinstance(length, ir.SymbolicDim) else None


def require_free_batch(graph: Graph, batch: int, sample: Shapes | None) -> None:
    """Make sure that the batch of a graph can be fixed to a length.

    Raises:
        UsageError: An input has another batch already.
    """
    for value in find_batch_inputs(graph, sample):
        length = (shape_of(value) or (None,))[0]
        if length not in (None, batch):
            raise UsageError(
                f"input {name_of(value)} has a batch of {length}, not {batch}; leave `static_batch` out"
            )


def with_fixed_batch(graph: Graph, batch: int, sample: Shapes | None = None) -> Graph:
    """A copy of the graph with that batch in the inputs of `find_batch_inputs`.

    Raises:
        UsageError: An input has another batch already.
    """
    changed = graph.copy()
    names: set[str] = set()
    require_free_batch(changed, batch, sample)
    for value in find_batch_inputs(changed, sample):
        assert value.shape is not None
        length = value.shape[0]
        if not isinstance(length, int) and length.value is not None:
            names.add(length.value)
        value.shape = ir.Shape([batch, *value.shape[1:]])
    made = [value for node in changed.nodes for value in node.outputs]
    for value in (*made, *changed.inputs):
        _fix_axes(value, names, batch)
    return changed


def _fix_axes(value: Value, names: set[str], batch: int) -> None:
    if value.shape is None:
        return
    lengths = [
        ir.SymbolicDim(None)
        if isinstance(n, int) and n < 0
        else n  # shape inference keeps Paddle's -1
        for n in value.shape
    ]
    value.shape = ir.Shape(
        [batch if not isinstance(n, int) and n.value in names else n for n in lengths]
    )


def require_own_batch(graph: Graph, feed: Mapping[str, NDArray[Any]], name: str) -> None:
    """Make sure that a feed has the batch of a model that takes no other.

    Args:
        graph: The model.
        feed: A sample.
        name: What to call the model.

    Raises:
        ModelError: The feed has another batch.
    """
    for value in graph.inputs:
        batch, given = (shape_of(value) or (None,))[0], feed[name_of(value)].shape[:1]
        if batch is not None and given not in ((), (batch,)):
            raise ModelError(
                f"{name} has a fixed batch of {batch}, and the samples have {given[0]}; "
                f"{OPEN_BATCH}, or give a folder of .npz with feeds of that batch"
            )
