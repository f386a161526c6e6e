"""A batch of fixed size: axis 0 of inputs, and the axes of other tensors that have its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx_ir as ir
from numpy.typing import NDArray

from ptq.core.errors import ModelError, UsageError
from ptq.core.wording import OPEN_BATCH
from ptq.model.batch_inputs import Shapes, find_batch_inputs
from ptq.model.graph import Graph
from ptq.model.node import Value, get_name, get_shape


def require_free_batch(graph: Graph, batch: int, sample: Shapes | None) -> None:
    """Make sure that the batch of a graph can be fixed to a length.

    Raises:
        UsageError: An input has another batch already.
    """
    for value in find_batch_inputs(graph, sample):
        length = (get_shape(value) or (None,))[0]
        if length not in (None, batch):
            raise UsageError(
                f"input {get_name(value)} has a batch of {length}, not {batch}; leave `static_batch` out"
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
        batch, given = (get_shape(value) or (None,))[0], feed[get_name(value)].shape[:1]
        if batch is not None and given not in ((), (batch,)):
            raise ModelError(
                f"{name} has a fixed batch of {batch}, and the samples have {given[0]}; "
                f"{OPEN_BATCH}, or give a folder of .npz with feeds of that batch"
            )
