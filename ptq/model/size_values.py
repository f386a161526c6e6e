"""Values that depend on the lengths of tensors and on constants alone, whatever the tensors hold."""

from __future__ import annotations

from ptq.model.graph import Graph
from ptq.model.node import Value, operator_of, values_read_by


def find_size_values(graph: Graph) -> set[Value]:
    """The outputs of nodes that read only lengths, constants and other such values."""
    known: set[Value] = set()
    for node in graph.nodes:
        read = values_read_by(node)
        lengths_alone = operator_of(node) in ("Shape", "Size")
        if lengths_alone or all(v.is_initializer() or v in known for v in read):
            known.update(node.outputs)
    return known
