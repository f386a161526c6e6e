"""Values that depend on the lengths of tensors and on constants alone, whatever the tensors hold."""

from __future__ import annotations

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
    get_name,
    get_operator,
    get_shape,
    list_values_read,
)
from ptq.model.session.session import Session

LENGTH_OPS = ("Shape", "Size")


def find_size_values(graph: Graph) -> set[Value]:
    """The outputs of nodes that read only lengths, constants and other such values."""
    known: set[Value] = set()
    for node in graph.nodes:
        read = list_values_read(node)
        lengths_alone = get_operator(node) in LENGTH_OPS
        if lengths_alone or all(v.is_initializer() or v in known for v in read):
            known.update(node.outputs)
    return known


class SizeValues:
    """Computes values that depend on lengths and constants alone."""

    def __init__(self, graph: Graph, unknown_length: int) -> None:
        """Compute nothing yet.

        Args:
            graph: A model with inferred shapes.
            unknown_length: What stands for each length that is not known.
        """
        self._graph, self._unknown_length = graph, unknown_length
        self._places = {node: place for place, node in enumerate(graph.nodes)}
        self._makers = {get_name(v): n for n in self._places for v in n.outputs if v.name}

    def compute(self, name: str) -> NDArray[Any]:
        """The array of a value.

        Raises:
            ModelError: A tensor has no known rank, or ONNX Runtime cannot compute the value.
        """
        nodes, lengths, waiting = set[Node](), dict[str, NDArray[Any]](), [name]
        while waiting:
            current = waiting.pop()
            node = self._makers.get(current)
            if node is None or node in nodes:
                continue
            if get_operator(node) in LENGTH_OPS:
                lengths[current] = _read_lengths(node, self._unknown_length)
            else:
                nodes.add(node)
                waiting += [get_name(value) for value in list_values_read(node)]
        if name in lengths:
            return lengths[name]
        ordered = sorted(nodes, key=self._places.__getitem__)
        part = self._graph.extract(ordered, list(lengths), [name])
        try:
            [array] = Session(part, optimize="none").run(lengths)
        except Exception as error:  # ONNX Runtime's errors have no narrower common base class
            raise ModelError(f"{name} cannot be computed: {error}") from error
        return np.asarray(array)


def _read_lengths(node: Node, unknown_length: int) -> NDArray[Any]:
    """The output of a Shape or Size."""
    read = node.inputs[0]
    constant = get_constant(read)
    shape = None if read is None else get_shape(read)
    shape = shape if constant is None else constant.shape
    if shape is None:
        raise ModelError(f"{node.name}: the rank of its input is unknown")
    lengths = np.array([unknown_length if n is None else n for n in shape], np.int64)
    if get_operator(node) == "Size":
        return np.asarray(lengths.prod())
    attributes = get_attributes(node)
    return lengths[attributes.get("start", 0) : attributes.get("end")]
