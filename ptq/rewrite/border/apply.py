"""The border that the options ask for."""

from __future__ import annotations

from typing import Any

from ptq.model.graph import Graph
from ptq.model.metadata import read_record
from ptq.rewrite.border.batch import with_fixed_batch
from ptq.rewrite.border.element_types import (
    BORDER,
    with_float16_border,
    with_integer_border,
)
from ptq.rewrite.border.float_border import list_float_border
from ptq.rewrite.prepare.fold_constants import fold_constants
from ptq.rewrite.tflite.write import TfliteOptions


def apply_border(
    graph: Graph, options: TfliteOptions, *, metadata: bool
) -> tuple[Graph, tuple[str, ...]]:
    """The graph with another element type of inputs and outputs, or a fixed batch; and lines that say so.

    Args:
        graph: A quantized ONNX graph with float inputs and outputs.
        options: The element type of inputs and outputs; ``int8`` stands for the integers that the graph has there.
            The batch. The shapes of a sample, which tell the inputs that have the batch.
        metadata: Whether types, scales and zero points of the border are recorded in the metadata.

    Raises:
        UnsupportedError: No input and no output is quantized.
        UsageError: An input has another batch already.
    """
    notes, io, batch = [], options.io, options.static_batch
    if batch is not None:
        graph = with_fixed_batch(graph, batch, options.shapes)
        fold_constants(graph)  # what was computed from the batch
        notes.append(f"batch fixed to {batch}")
    if io == "float16":
        graph = with_float16_border(graph)
        notes.append("inputs and outputs are float16")
    if io == "int8":
        graph = with_integer_border(graph)
        notes.append(_describe_integers(graph, read_record(graph, BORDER) or {}))
    if not metadata:
        graph.metadata.pop(BORDER, None)
    return graph, tuple(notes)


def _describe_integers(graph: Graph, record: dict[str, Any]) -> str:
    entries = {**record.get("inputs", {}), **record.get("outputs", {})}
    text = "; ".join(
        f"{name} is {e['type']} (scale {e['scale']:g}, zero point {e['zero_point']})"
        for name, e in entries.items()
    )
    floats = list_float_border(graph)
    return text + (f"; not quantized, so float: {', '.join(floats)}" if floats else "")
