"""Inputs and outputs as integers or halves in place of float32; the rest of the model computes the same.

An input that only quantizers of equal parameters read becomes the integers that they write. An output that a
DequantizeLinear computes becomes the integers that it reads. Scale and zero point are recorded in the metadata
(`BORDER`), from which the quantizers can be put back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ptq.core.errors import ModelError, UnsupportedError
from ptq.core.types import FLOAT32, QType, QuantParams
from ptq.model.graph import Graph
from ptq.model.metadata import read_record, write_record
from ptq.model.node import (
    MICROSOFT_PREFIX,
    Node,
    Value,
    consumers_of,
    dtype_of,
    name_of,
    operator_of,
)
from ptq.model.open import Model, open_model
from ptq.model.qdq_units import QuantizedTensor, read_quantizer
from ptq.rewrite.emit.allow_16_bits import allow_16_bits

BORDER = "ptq.io"
"""Metadata: type, scale and zero point of each input and output that holds integers, by name."""
_FLOAT16 = np.dtype(np.float16)


def with_integer_border(graph: Graph) -> Graph:
    """A copy of the graph whose quantized inputs and outputs hold integers.

    Raises:
        UnsupportedError: No input and no output is quantized.
    """
    changed = graph.copy()
    record = {
        "inputs": dict(_quantize_inputs(changed)),
        "outputs": dict(_quantize_outputs(changed)),
    }
    if not any(record.values()):
        raise UnsupportedError(
            "no input and no output of the quantized model holds integers, because the nodes there stay float; "
            "leave `io` out, or choose target litert"
        )
    changed.remove_unused()
    write_record(changed, BORDER, record)
    return changed


def with_float16_border(graph: Graph) -> Graph:
    """A copy of the graph whose float32 inputs and outputs are float16, with a Cast behind or before each."""
    changed = graph.copy()
    for value in changed.inputs:
        if dtype_of(value) == FLOAT32:
            _set_dtype(value, _FLOAT16)
            readers = [use.node for use in value.uses()]
            _cast_input(changed, value, readers)
    for value in changed.outputs:
        if dtype_of(value) == FLOAT32 and not value.is_graph_input():
            half = changed.insert(
                "Cast", [value], after=value.producer(), attrs={"to": int(ir.DataType.FLOAT16)},
                output=f"{name_of(value)}_float16", dtype=_FLOAT16, shape_like=value,
            )  # fmt: skip
            _replace_output(changed, value, half, _FLOAT16)
    changed.sort()
    return changed


def _cast_input(graph: Graph, value: Value, readers: list[Node]) -> None:
    if not readers:
        return
    real = graph.insert(
        "Cast", [value], before=graph.nodes[0], attrs={"to": int(ir.DataType.FLOAT)},
        output=f"{name_of(value)}_float32", dtype=FLOAT32, shape_like=value,
    )  # fmt: skip
    cast = real.producer()
    graph.redirect(value, real, keep=[] if cast is None else [cast])


def list_float_border(graph: Graph) -> list[str]:
    """Names of inputs and outputs that are float32."""
    return [name_of(v) for v in (*graph.inputs, *graph.outputs) if dtype_of(v) == FLOAT32]


def _quantize_inputs(graph: Graph) -> Iterator[tuple[str, dict[str, Any]]]:
    for value in graph.inputs:
        found = [_written_integers(node) for node in consumers_of(value)]
        first = found[0] if found else None
        if first is None or any(f is None or f.params != first.params for f in found):
            continue
        if first.params.axis is not None or value.is_graph_output():
            continue
        for node in consumers_of(value):
            graph.redirect(node.outputs[0], value)
            graph.remove(node)
        _set_dtype(value, first.params.qtype.dtype)
        yield name_of(value), _describe(first.params)


def _written_integers(node: Node) -> QuantizedTensor | None:
    if operator_of(node).removeprefix(MICROSOFT_PREFIX) != "QuantizeLinear":
        return None
    if node.outputs[0].is_graph_output():
        return None
    return read_quantizer(node, node.outputs[0])


def _quantize_outputs(graph: Graph) -> Iterator[tuple[str, dict[str, Any]]]:
    for value in graph.outputs:
        node = value.producer()
        if node is None or operator_of(node).removeprefix(MICROSOFT_PREFIX) != "DequantizeLinear":
            continue
        found = read_quantizer(node, node.inputs[0])
        if found is None or found.params.axis is not None:
            continue
        integers, name = found.integers, name_of(value)
        if integers.is_initializer() or integers.is_graph_input() or integers.is_graph_output():
            continue
        _replace_output(graph, value, integers, found.params.qtype.dtype)
        yield name, _describe(found.params)


def _replace_output(graph: Graph, old: Value, new: Value, dtype: np.dtype[Any]) -> None:
    graph.replace_output(old, new)
    _set_dtype(new, dtype)


def _set_dtype(value: Value, dtype: np.dtype[Any]) -> None:
    value.type = ir.TensorType(ir.DataType.from_numpy(dtype))


def _describe(params: QuantParams) -> dict[str, Any]:
    return {
        "type": params.qtype.name,
        "scale": float(str(params.scale)),
        "zero_point": int(params.zero_point),
    }


def open_with_float_border(model: Model) -> Graph:
    """The model, with quantizers where `with_integer_border` took them away, so that it takes float samples.

    Raises:
        ModelError: The model cannot be read, or its record of the border is damaged.
    """
    graph = open_model(model)
    record = read_record(graph, BORDER)
    if record is None:
        return graph
    restored = graph.copy()
    try:
        _dequantize_border(restored, record)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"the entry {BORDER} of the model's metadata is damaged ({error!r}); quantize again"
        ) from error
    allow_16_bits(restored)
    restored.sort()
    return restored


def _dequantize_border(graph: Graph, record: Mapping[str, Any]) -> None:
    del graph.metadata[BORDER]
    for value in graph.inputs:
        if (entry := record["inputs"].get(name_of(value))) is not None:
            readers = [use.node for use in value.uses()]
            integers = graph.insert(
                "QuantizeLinear", [value, *_constants(graph, name_of(value), entry)],
                before=graph.nodes[0], output=f"{name_of(value)}_quantized",
                dtype=np.dtype(entry["type"]), shape_like=value,
            )  # fmt: skip
            maker = integers.producer()
            if readers:
                graph.redirect(value, integers, keep=[] if maker is None else [maker])
            _set_dtype(value, FLOAT32)
    for value in graph.outputs:
        if (entry := record["outputs"].get(name_of(value))) is not None:
            real = graph.insert(
                "DequantizeLinear", [value, *_constants(graph, name_of(value), entry)],
                after=value.producer(), output=f"{name_of(value)}_dequantized", dtype=FLOAT32,
                shape_like=value,
            )  # fmt: skip
            kind = np.dtype(entry["type"])
            graph.replace_output(value, real)
            _set_dtype(value, kind)
            _set_dtype(real, FLOAT32)


def _constants(graph: Graph, name: str, entry: Mapping[str, Any]) -> list[Value]:
    dtype = np.dtype(entry["type"])
    info = np.iinfo(dtype)
    kind = QType(dtype.itemsize * 8, dtype.kind == "i", int(info.min), int(info.max))
    params = QuantParams.per_tensor(float(entry["scale"]), int(entry["zero_point"]), kind)
    return [
        graph.add_constant(params.scale, f"{name}_scale"),
        graph.add_constant(params.zero_point.astype(dtype), f"{name}_zero_point"),
    ]
