"""Shapes of all tensors of a graph, measured in ONNX Runtime: with the batch that is written, and with twice that.

An axis whose length differs between the two grows with the batch. What no input's values reach (shapes, and
constants repeated for each sample) is measured too: it becomes a constant of the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError, UnsupportedError
from ptq.model.batch_inputs import find_batch_inputs
from ptq.model.graph import Graph
from ptq.model.node import Value, get_dtype, get_name, get_operator, get_shape
from ptq.model.session.exposed_session import with_extra_outputs
from ptq.model.session.session import Session
from ptq.model.size_values import find_size_values
from ptq.rewrite.emit.allow_16_bits import allow_16_bits

Shape = tuple[int, ...]


class DependsOnBatchError(UnsupportedError):
    """A model or an operator that cannot be written for a batch of any size."""


@dataclass(frozen=True, eq=False)
class MeasuredShapes:
    """Shapes of a graph's tensors.

    Attributes:
        shapes: The shape of each tensor, in ONNX's order, with the batch that is written.
        signatures: The same, with −1 for axes that grow with the batch.
        dtypes: The element type of each tensor.
        fixed: Values that depend on no input's values, by name.
        grows: Names of those among them that change with the batch.
    """

    shapes: Mapping[str, Shape]
    signatures: Mapping[str, Shape]
    dtypes: Mapping[str, np.dtype[Any]]
    fixed: Mapping[str, NDArray[Any]]
    grows: frozenset[str]


def measure_shapes(graph: Graph, batch: int | None, given: Mapping[str, Shape]) -> MeasuredShapes:
    """Measure the shapes of all tensors.

    Args:
        graph: The graph.
        batch: The length of a batch axis that the graph leaves open; None keeps it open, written as 1.
        given: Shapes of inputs by name, for other axes that the graph leaves open.

    Raises:
        DependsOnBatchError: The model does not run with twice the batch, because the batch of an input is not first.
        UnsupportedError: An input has an open axis that is not its first.
    """
    fixed_names = {get_name(value) for value in find_size_values(graph) if value.name}
    is_open = any((get_shape(v) or (None,))[0] is None for v in graph.inputs)
    one = _run(graph, batch or 1, given, fixed_names)
    try:
        other = _run(graph, 2, given, fixed_names) if is_open and batch is None else one
    except DataError as error:
        raise DependsOnBatchError(f"the model runs with a batch of one only: {error}") from error
    signatures = {
        name: tuple(
            length if length == another else -1
            for length, another in zip(shape, other.shapes[name], strict=True)
        )
        for name, shape in one.shapes.items()
    }
    grows = {
        name
        for name, array in one.fixed.items()
        if array.shape != other.fixed[name].shape or not np.array_equal(array, other.fixed[name])
    }
    return MeasuredShapes(one.shapes, signatures, one.dtypes, one.fixed, frozenset(grows))


def _run(
    graph: Graph, batch: int, given: Mapping[str, Shape], fixed_names: set[str]
) -> MeasuredShapes:
    _require_numpy_types(graph)
    computed = [get_name(v) for node in graph.nodes for v in node.outputs if v.name and v.uses()]
    exposed = with_extra_outputs(graph, computed)
    batched = find_batch_inputs(graph, given)
    feed = {
        get_name(value): _make_zeros(
            value, batch, given.get(get_name(value)), has_batch=value in batched
        )
        for value in graph.inputs
    }
    allow_16_bits(exposed)
    session = Session.for_check(exposed, optimize="none")
    names = list(session.outputs)
    arrays = {**feed, **dict(zip(names, session.run(feed, names), strict=True))}
    sequence = next((name for name, array in arrays.items() if isinstance(array, list)), None)
    if sequence is not None:
        raise UnsupportedError(f"{sequence} is a sequence, which has no form in LiteRT")
    for value in graph.outputs:  # an output may be an input itself
        arrays.setdefault(get_name(value), feed.get(get_name(value), np.zeros(0)))
    return MeasuredShapes(
        shapes={name: tuple(array.shape) for name, array in arrays.items()},
        signatures={},
        dtypes={name: array.dtype for name, array in arrays.items()},
        fixed={name: arrays[name] for name in fixed_names if name in arrays},
        grows=frozenset(),
    )


def _require_numpy_types(graph: Graph) -> None:
    """Refuse element types, such as bfloat16, that neither numpy nor ptq's `.tflite` files have."""
    for node in graph.nodes:
        for value in node.outputs:
            dtype = get_dtype(value)
            if dtype is not None and dtype.isbuiltin != 1:
                raise UnsupportedError(
                    f"{value.name}, the result of {get_operator(node)} ({node.name}), is {dtype}, which a .tflite "
                    "file cannot hold; export the model in float32"
                )


def _make_zeros(value: Value, batch: int, given: Shape | None, *, has_batch: bool) -> NDArray[Any]:
    shape, dtype = get_shape(value), get_dtype(value)
    if shape is None or dtype is None:
        raise UnsupportedError(
            f"input {value.name} has no shape or no type that LiteRT knows; state it in the model"
        )
    if given is not None and len(given) == len(shape):
        pairs = enumerate(zip(shape, given, strict=True))
        shape = tuple(
            n if n is not None or (has_batch and not axis) else other for axis, (n, other) in pairs
        )
    for axis, length in enumerate(shape):
        if length is None and axis:
            raise UnsupportedError(
                f"axis {axis} of input {value.name} has no fixed length; a .tflite file leaves only the "
                "batch open: give the axis a length in the model"
            )
    return np.zeros([batch if length is None else length for length in shape], dtype)
