"""Which bytes of a quantized model are constants that the float model computes from smaller ones.

Quantization needs the values of constants, so it evaluates what computes them, such as the waves of a spectrogram.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from ptq.model.graph import Graph
from ptq.model.node import Node, get_name, is_constant

_ENDING = re.compile(r"_(corrected|quantized)(_\d+)?$")
"""What a constant's name ends with once it is quantized; a number makes the name unique."""
_SHAPES = ("Shape", "Size")
"""Operators whose results need no values of their inputs."""


def count_computed_bytes(quantized: Graph, source: Graph) -> int:
    """Bytes by which evaluated constants of a quantized model exceed what the float model has in their place.

    Args:
        quantized: The quantized model; a constant has the name that it had in the float model, and an ending if it is
            quantized.
        source: The float model.
    """
    producers = {get_name(value): node for node in source.nodes for value in node.outputs}
    given = _count_bytes(source)
    names = producers.keys() | given.keys()
    found = [(_find_origin(name, names), size) for name, size in _count_bytes(quantized).items()]
    kept = {name for name, _ in found}
    roots = _find_roots(kept & producers.keys(), producers)
    lost = sum(size for name, size in given.items() if name in roots - kept)
    return max(0, sum(size for name, size in found if name in producers) - lost)


def _count_bytes(graph: Graph) -> dict[str, int]:
    """The size of each constant that a node reads, by name."""
    return {
        get_name(value): value.const_value.nbytes
        for node in graph.nodes
        for value in node.inputs
        if value is not None and is_constant(value) and value.const_value is not None
    }


def _find_origin(name: str, names: Collection[str]) -> str:
    """The value of the float model that a stored constant is, or is made of; else a name that it does not have."""
    while name not in names and (ending := _ENDING.search(name)):
        name = name[: ending.start()]
    return name


def _find_roots(values: Iterable[str], producers: Mapping[str, Node]) -> set[str]:
    """The values that no node gives and that some values are computed from, themselves or through others."""
    waiting, seen = [*values], set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        node = producers.get(name)
        if node is not None and node.op_type not in _SHAPES:
            waiting += [get_name(value) for value in node.inputs if value is not None]
    return seen - producers.keys()
