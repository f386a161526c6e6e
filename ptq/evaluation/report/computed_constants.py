"""Which bytes of a quantized model are constants that the float model computes from smaller ones.

Quantization needs the values of constants, so it evaluates what computes them, such as the waves of a spectrogram.
"""

from __future__ import annotations

from collections.abc import Iterator

from ptq.model.graph import Graph
from ptq.model.node import Node, Value, get_name, is_constant


def count_computed_bytes(quantized: Graph, source: Graph) -> int:
    """Bytes by which evaluated constants of a quantized model exceed those that the float model has in their place.

    Args:
        quantized: The quantized model; an evaluated constant has the name that it had in the float model.
        source: The float model.
    """
    stored: dict[str, int] = {}
    roots: dict[
        str, frozenset[str]
    ] = {}  # of each computed value, the constants that it comes from
    for node in source.nodes:
        stored |= {get_name(constant): _count_bytes(constant) for constant in _list_constants(node)}
        names = [get_name(value) for value in node.inputs if value is not None]
        found = frozenset[str]().union(
            *(roots.get(name, {name} if name in stored else ()) for name in names)
        )
        roots |= dict.fromkeys(map(get_name, node.outputs), found)
    kept = {
        get_name(constant): constant
        for node in quantized.nodes
        for constant in _list_constants(node)
    }
    return sum(
        max(0, _count_bytes(constant) - sum(stored[root] for root in roots[name]))
        for name, constant in kept.items()
        if name in roots
    )


def _list_constants(node: Node) -> Iterator[Value]:
    return (value for value in node.inputs if value is not None and is_constant(value))


def _count_bytes(constant: Value) -> int:
    assert constant.const_value is not None
    return constant.const_value.nbytes
