"""Names for the nameless dimensions of inputs, so that shape inference can follow them.

Some exporters write −1 for a varying dimension, or the same ``?`` for several dimensions that differ.
"""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from ptq.model.graph import Graph
from ptq.model.node import get_axis_names
from ptq.rewrite.change import Change
from ptq.rewrite.prepare.shape_inference import build_shape_from_symbols, get_symbolic_shape


def name_dimensions(graph: Graph) -> list[Change]:
    """Name the nameless dimensions of the inputs and clear those of the other tensors, in place.

    The model computes the same, so that there is nothing to report.
    """
    values = [*graph.inputs, *graph.outputs, *(v for n in graph.nodes for v in n.outputs)]
    taken = {name for value in values for name in get_axis_names(value)}
    for value in values:
        symbols = get_symbolic_shape(value)
        if symbols is None:
            continue
        shape = list(build_shape_from_symbols(symbols))
        if value.is_graph_input():
            names = [_make_name(f"{value.name}_dim_{axis}", taken) for axis in range(len(shape))]
            shape = [
                ir.SymbolicDim(name) if isinstance(d, ir.SymbolicDim) and d.value is None else d
                for d, name in zip(shape, names, strict=True)
            ]
        value.shape = ir.Shape(shape)
    return []


def _make_name(name: str, taken: Collection[str | None]) -> str:
    while name in taken:
        name += "_"
    return name
