"""Which inputs and outputs stay float, and why none becomes integers."""

from __future__ import annotations

from ptq.model.graph import Graph
from ptq.model.node import get_dtype, get_name


def list_float_border(graph: Graph) -> list[str]:
    """Names of inputs and outputs that are floating-point numbers."""
    border = (*graph.inputs, *graph.outputs)
    return [get_name(v) for v in border if v.dtype is not None and v.dtype.is_floating_point()]


def explain_float_border(graph: Graph) -> str:
    """Why no input and no output can become integers."""
    given = [
        f"{get_name(v)} is {get_dtype(v)}"
        for v in graph.inputs
        if v.dtype is not None and v.dtype.is_integer()
    ]
    if not given:
        return "no input and no output of the quantized model holds integers, because the nodes there stay float"
    floats = ", ".join(list_float_border(graph))
    return f"there is nothing to change: input {', '.join(given)} already" + (
        f", and the nodes at {floats} stay float" if floats else ""
    )
