"""Calls of a model's own functions, which reading puts in place: which nodes stand for a call."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import onnx_ir as ir

_CALLS = "function_calls"


@dataclass(frozen=True)
class FunctionCall:
    """A node of the main graph that called a function.

    Attributes:
        names: Its name, and that of the function.
        inputs: Names of its inputs.
        outputs: Names of its outputs.
    """

    names: tuple[str, str]
    inputs: frozenset[str]
    outputs: tuple[str, ...]


def note_calls(model: ir.Model) -> None:
    """Note the calls of a model in its memory, before they are replaced by what they call."""
    model.meta[_CALLS] = [
        FunctionCall(
            (node.name or "", node.op_type),
            frozenset(value.name or "" for value in node.inputs if value is not None),
            tuple(value.name or "" for value in node.outputs),
        )
        for node in model.graph
        if node.op_identifier() in model.functions
    ]


def list_called_nodes(model: ir.Model, name: str) -> Iterator[ir.Node]:
    """The nodes that stand for the calls of this name, or of the function of this name."""
    writers = {v.name: node for node in model.graph for v in node.outputs}
    for call in model.meta.get(_CALLS, ()):
        if name in call.names:
            yield from _list_between(writers, call.inputs, call.outputs)


def _list_between(
    writers: dict[str | None, ir.Node], inputs: Collection[str], outputs: Collection[str]
) -> Iterator[ir.Node]:
    ahead, found = list(outputs), set[ir.Node]()
    while ahead:
        result = ahead.pop()
        node = None if result in inputs else writers.get(result)
        if node is None or node in found:
            continue
        found.add(node)
        yield node
        ahead += [value.name or "" for value in node.inputs if value is not None]
