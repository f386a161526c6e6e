"""A QDQ graph as the bytes of a `.tflite` file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.core.types import FLOAT32
from ptq.model.graph import Graph
from ptq.model.tflite.interpreter import ORDERS, STANDARD
from ptq.rewrite.tflite.emitter import Emitter, TableMaker
from ptq.rewrite.tflite.flatbuffer import FlatbufferModel
from ptq.rewrite.tflite.fuse_clamps import fuse_clamps
from ptq.rewrite.tflite.inputs_outputs import (
    map_integer_borders,
    without_quantizers,
    write_float16_input,
    write_float16_output,
)
from ptq.rewrite.tflite.layouts import (
    KEEPS_FEATURES,
    find_free_features,
    find_values_preferring_last,
    find_values_stored_last,
)
from ptq.rewrite.tflite.measured_shapes import DependsOnBatchError, measure_shapes
from ptq.rewrite.tflite.operations import Operation, OperationList, list_operations
from ptq.rewrite.tflite.orders import Order, order_channels_last, order_naturally
from ptq.rewrite.tflite.rows import ROWS
from ptq.rewrite.tflite.standard_metadata import (
    NOTHING_KNOWN,
    ModelDescription,
    encode_description,
    pack_labels,
)

InputOutputType = Literal["float", "int8", "float16"]
"""Element type of the file's inputs and outputs."""


@dataclass(frozen=True)
class TfliteOptions:
    """How a `.tflite` file is written.

    Attributes:
        io: Element type of inputs and outputs that are quantized inside: ``float``, ``int8`` or ``float16``.
        static_batch: The batch that is written; None leaves it open where every operator allows that, and writes 1
            elsewhere.
        shapes: Shapes of inputs by name, from which other axes that the model leaves open are taken.
    """

    io: InputOutputType = "float"
    static_batch: int | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


DEFAULT_TFLITE = TfliteOptions()


@dataclass(frozen=True)
class TfliteFile:
    """A `.tflite` file.

    Attributes:
        content: Its bytes.
        orders: Stored order of the axes of each value that is one of its tensors, by name.
        features: Of flattened values whose features are stored in another order, the ONNX feature at each position.
        float_nodes: Nodes that LiteRT computes in float only, found while they were written, each with the reason.
    """

    content: bytes
    orders: Mapping[str, tuple[int, ...]]
    features: Mapping[str, NDArray[np.int64]]
    float_nodes: Mapping[str, str]


def write_tflite(
    graph: Graph,
    options: TfliteOptions,
    make_table: TableMaker | None,
    description: ModelDescription = NOTHING_KNOWN,
) -> TfliteFile:
    """The `.tflite` file of a QDQ graph.

    Args:
        graph: A QDQ graph with int8 activations.
        options: How it is written.
        make_table: Computes the 256 entries of a function that LiteRT does not have; None in a rehearsal, which
            writes another function there.
        description: What TensorFlow Lite's metadata say about the model.

    Raises:
        UnsupportedError: An operator has no form in LiteRT; the text names it.
    """
    if options.static_batch is None:
        try:
            return _write(graph, options, None, make_table, description)
        except DependsOnBatchError:
            return _write(graph, options, 1, make_table, description)
    return _write(graph, options, options.static_batch, make_table, description)


def _write(
    graph: Graph,
    options: TfliteOptions,
    batch: int | None,
    make_table: TableMaker | None,
    description: ModelDescription,
) -> TfliteFile:
    measured = measure_shapes(graph, batch, options.shapes)
    listed = list_operations(graph, measured.fixed, measured.grows, _has_integer_form)
    _check_types(listed)
    listed = fuse_clamps(listed)
    images = find_values_preferring_last(listed, measured)
    last = find_values_stored_last(listed, measured, images)
    model = FlatbufferModel()
    e = Emitter(listed, measured, model, make_table, find_free_features(listed), images)
    inner = map_integer_borders(listed) if options.io == "int8" and make_table else ({}, {})
    inputs = {
        name: _write_input(e, name, inner[0].get(name, name), options) for name in listed.inputs
    }
    for o in without_quantizers(listed, *inner):
        write_operation(e, o)
    sources = {name: inner[1].get(name, name) for name in listed.outputs}
    # an image stays channels last; a Transpose of the model is written, for it is what the model returns
    ends = {
        name: e.order(source) if name in last else order_naturally(e.rank(source))
        for name, source in sources.items()
    }
    outputs = {
        name: _write_output(e, source, ends[name], options) for name, source in sources.items()
    }
    model.set_inputs_and_outputs(inputs, outputs)
    begins = {name: e.order(inner[0].get(name, name)) for name in listed.inputs}
    orders = {name: [*(order or ())] for name, order in (begins | ends).items()}
    for key, text in _build_metadata(graph, orders).items():
        model.add_metadata(key, text.encode())
    shapes = {name: model.shape_of(number) for name, number in outputs.items()}
    model.add_metadata(STANDARD, encode_description(description, [*inputs], shapes))
    content = pack_labels(model.to_bytes(), description.labels)
    return TfliteFile(content, e.orders(), e.features, e.float_nodes)


def _has_integer_form(op: str) -> bool:
    row = ROWS.get(op)
    return row is not None and row.integer is not None


def write_operation(e: Emitter, o: Operation) -> None:
    """Write one operator.

    Raises:
        UnsupportedError: LiteRT does not have it.
    """
    row = ROWS.get(o.op)
    writer = None if row is None else row.integer if o.is_integer else row.real
    if writer is None and row is not None and e.make_table is None:
        writer = row.integer
    if writer is None:
        kind = "8-bit integers" if o.is_integer else "float"
        raise UnsupportedError(
            f"{o.op} {o.name} has no form in LiteRT on {kind}; it cannot be in a .tflite file"
        )
    writer(e, o)
    if o.op in KEEPS_FEATURES and o.inputs[0] in e.features:
        e.features[o.outputs[0]] = e.features[o.inputs[0]]


def _write_input(e: Emitter, name: str, inner: str, options: TfliteOptions) -> int:
    """The tensor of an input; ``inner`` names its integers if it has them."""
    is_image = name in e.prefers_last
    if options.io == "float16" and e.dtype(name) == FLOAT32:
        return write_float16_input(e, name, is_image=is_image)
    rank = e.rank(name)
    return e.write(inner, order_channels_last(rank) if is_image else order_naturally(rank))


def _write_output(e: Emitter, name: str, order: Order | None, options: TfliteOptions) -> int:
    if options.io == "float16" and e.dtype(name) == FLOAT32:
        return write_float16_output(e, name, order or order_naturally(e.rank(name)))
    return e.read(name, order)


def _check_types(listed: OperationList) -> None:
    for name, params in listed.params.items():
        if params.qtype.bits == 8 and not params.qtype.signed:
            raise UnsupportedError(
                f"tensor {name} is {params.qtype.name}; LiteRT computes on int8: quantize for target litert"
            )
        if name not in listed.constants and params.axis is not None:
            raise UnsupportedError(
                f"activation {name} has per-channel scales; LiteRT's activations have one: "
                "quantize for target litert"
            )


def _build_metadata(graph: Graph, orders: Mapping[str, list[int]]) -> dict[str, str]:
    """The entries of the ONNX model's metadata, and the stored order of inputs and outputs."""
    found: dict[str, Any] = dict(sorted(graph.metadata.items()))
    found[ORDERS] = json.dumps(orders, sort_keys=True)
    return {key: str(value) for key, value in found.items()}
