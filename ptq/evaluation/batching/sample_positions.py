"""Whether positions along the batch are those of the samples: sample 3 reads and writes place 3, not place 0.

Positions are read off at two batches: what depends on constants and lengths alone is computed for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import ModelError
from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    Value,
    get_attributes,
    get_constant,
    get_dtype,
    get_name,
    get_operator,
    get_shape,
    list_values_read,
)
from ptq.model.random_nodes import find_random_nodes
from ptq.model.size_values import LENGTH_OPS, SizeValues, find_size_values

_UNKNOWN_LENGTHS = (64, 16, 4, 1)
"""Stand for the lengths that samples decide, as of an image: most networks halve it a few times. A table of positions
may be shorter, so the first with which the model computes is taken.
"""
_FEW = 3
"""The batch for which values are computed: the largest ones grow with it."""
_POSITIONS = {
    "Gather": 1,
    "GatherElements": 1,
    "GatherND": 1,
    "RoiAlign": 2,
    "Scatter": 1,
    "ScatterElements": 1,
    "ScatterND": 1,
}
"""The input that holds positions along axes of the first input."""
_COMBINING = frozenset(["Add", "Concat", "Max", "Min", "Sub", "Where"])
"""A number of a sample that they read is in what they give."""


class SamplePositions:
    """Finds positions and numbers that mean another sample in a batch than alone.

    Attributes:
        sizes: Names of the values that follow from constants and lengths alone.
    """

    def __init__(self, graph: Graph, batch: int, shape: Callable[[int], Graph]) -> None:
        """Prepare a graph; nothing is computed before it is asked for.

        Args:
            graph: A model with inferred shapes and that batch.
            batch: A number that no other length is a multiple of.
            shape: Makes the same model with another batch and inferred shapes.
        """
        self._graph, self._batch, self._shape = graph, batch, shape
        self.sizes = {get_name(value) for value in find_size_values(graph) if value.name}
        self._varying = self._find_varying()
        self._computed: dict[str, tuple[NDArray[Any], bool]] = {}

    @cached_property
    def _graphs(self) -> tuple[Graph, Graph]:
        """The graph with a few samples, and with one."""
        return self._shape(_FEW), self._shape(1)

    @cached_property
    def _evaluators(self) -> list[tuple[SizeValues, SizeValues]]:
        few, one = self._graphs
        return [(SizeValues(few, n), SizeValues(one, n)) for n in _UNKNOWN_LENGTHS]

    def _find_varying(self) -> frozenset[str]:
        """Those of the sizes that may follow from the batch: weights follow from constants, and are left alone."""
        random, found = frozenset(find_random_nodes(self._graph)), set[str]()
        for node in self._graph.nodes:
            read = list_values_read(node)
            if get_operator(node) in LENGTH_OPS:
                shape = None if node.inputs[0] is None else get_shape(node.inputs[0])
                varies = shape is None or any(
                    n is None or (n and n % self._batch == 0) for n in shape
                )
            else:
                varies = node in random or any(value.name in found for value in read)
            if varies:
                found.update(get_name(v) for v in node.outputs if v.name in self.sizes)
        return frozenset(found)

    def mix_samples(self, node: Node, batch_axes: Callable[[Value | None], list[int]]) -> bool:
        """Whether a node reads or writes by positions that are not those of the samples.

        Args:
            node: A node that reads samples.
            batch_axes: The axes of a value along which its samples lie.

        Raises:
            ModelError: A position that follows from lengths cannot be computed.
        """
        if any(self._is_number_of_samples(value) for value in node.inputs):
            return True
        index = _POSITIONS.get(get_operator(node))
        positions = None if index is None else node.inputs[index]
        axes, first = batch_axes(node.inputs[0]), node.inputs[0]
        if positions is None:
            return self._makes_numbers(node) and any(map(self._holds_number, node.inputs))
        if first is None:
            return False
        array = self._compute(positions)
        for axis, column in _list_indexed_axes(node, positions):
            if axis in axes and not self._are_own(positions, array, column):
                return True
            if axis not in axes and column is None and self._holds_number(positions):
                return True
        if get_operator(node) in ("Scatter", "ScatterElements"):
            lengths, whole = (
                get_shape(positions) if array is None else array.shape,
                get_shape(first),
            )
            return any(
                lengths and whole and lengths[axis] not in (None, whole[axis]) for axis in axes
            )
        return False

    def counts_samples(self, value: Value) -> bool:
        """Whether an output follows from the length of the batch, or holds the number of a sample."""
        return self._differs(value) or self._holds_number(value)

    def _is_number_of_samples(self, value: Value | None) -> bool:
        """Whether a float or a mask follows from the length of the batch, or numbers its samples."""
        if value is None or value.name not in self._varying:
            return False
        dtype = get_dtype(value)
        return dtype is not None and dtype.kind in "fb" and self._differs(value)

    def _are_own(self, value: Value, array: NDArray[Any] | None, column: int | None) -> bool:
        """Whether each sample's positions are its own place in the batch."""
        if array is None:  # samples decide where in their part; a number says in which part
            return self._holds_number(value)
        array = array if column is None else array[..., column]
        batch = _FEW if value.name in self._varying else self._batch
        count = np.arange(batch)
        return any(
            length == batch
            and bool((array == np.expand_dims(count, tuple(range(1, array.ndim - axis)))).all())
            for axis, length in enumerate(array.shape)
        )

    def _holds_number(self, value: Value | None) -> bool:
        """Whether the number of a sample is in an integer that also follows from samples."""
        if value is None or value.name in self.sizes or not _is_integer(value):
            return False
        return any(self._differs(count) for count in self._list_sizes_behind(value))

    @staticmethod
    def _makes_numbers(node: Node) -> bool:
        """Whether a node makes floats or a mask: integers, and those that a mask chooses, may become positions."""
        kinds = [
            dtype.kind
            for value in node.outputs
            if (dtype := get_dtype(value)) is not None and not _is_choice_of_integers(value)
        ]
        return any(kind in "fb" for kind in kinds)

    def _list_sizes_behind(self, value: Value) -> Iterator[Value]:
        """The integers from lengths alone that are combined with those of samples.

        A mask that chooses integers is followed too.
        """
        waiting, seen = [value], set[Value]()
        while waiting:
            node = waiting.pop().producer()
            if node is None:
                continue
            for read in list_values_read(node):
                dtype = get_dtype(read)
                if not read.name or (dtype is not None and dtype.kind not in "iub"):
                    continue
                if read.name in self.sizes:
                    if get_operator(node) in _COMBINING:
                        yield read
                elif read not in seen:
                    seen.add(read)
                    waiting.append(read)

    def _compute(self, value: Value) -> NDArray[Any] | None:
        constant = get_constant(value)
        if constant is not None:
            return constant
        return self._compute_both(value)[0] if value.name in self.sizes else None

    def _differs(self, value: Value) -> bool:
        return value.name in self._varying and self._compute_both(value)[1]

    def _compute_both(self, value: Value) -> tuple[NDArray[Any], bool]:
        """The value with a few samples, and whether it is another one with one sample."""
        name = get_name(value)
        if name not in self._computed:
            batched, alone = self._compute_first(name)
            try:
                differs = not np.array_equal(batched, np.broadcast_to(alone, batched.shape))
            except ValueError:  # one does not repeat the other
                differs = True
            self._computed[name] = batched, differs
        return self._computed[name]

    def _compute_first(self, name: str) -> tuple[NDArray[Any], NDArray[Any]]:
        """The value for a few samples and for one, with the first lengths that fit."""
        for few, one in self._evaluators[:-1]:
            try:
                return few.compute(name), one.compute(name)
            except ModelError:
                continue
        few, one = self._evaluators[-1]
        return few.compute(name), one.compute(name)


def _is_choice_of_integers(value: Value) -> bool:
    """Whether a mask does nothing else, as where negative positions are made positive."""
    return not value.is_graph_output() and all(
        get_operator(use.node) == "Where" and _is_integer(use.node.outputs[0])
        for use in value.uses()
    )


def _is_integer(value: Value) -> bool:
    dtype = get_dtype(value)
    return dtype is not None and dtype.kind in "iu"


def _list_indexed_axes(node: Node, positions: Value) -> Iterator[tuple[int, int | None]]:
    """The axes of the first input that positions count along, and the column of the positions, None for all."""
    op, attributes = get_operator(node), get_attributes(node)
    first = node.inputs[0]
    rank = len((get_shape(first) if first is not None else None) or ())
    if op == "RoiAlign":
        yield 0, None
    elif op in ("GatherND", "ScatterND"):
        start, shape = int(attributes.get("batch_dims", 0)), get_shape(positions)
        count = shape[-1] if shape else None
        for column in range(rank - start if count is None else count):
            yield start + column, column
    elif rank:
        yield int(attributes.get("axis", 0)) % rank, None
