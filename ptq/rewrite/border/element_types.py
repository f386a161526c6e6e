"""Inputs and outputs as integers or halves in place of float32; the rest of the model computes the same.

An input that only quantizers of equal parameters read becomes the integers that they write. An output that a
DequantizeLinear computes becomes the integers that it reads. The metadata record types, scales and zero points
(`BORDER`), from which quantizers or Casts can be put there, so that the model takes float samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from ptq.core.errors import ModelError, UnsupportedError
from ptq.core.types import FLOAT16, FLOAT32, QType, QuantParams
from ptq.model.border_casts import find_casts_to_outputs, find_input_behind_cast
from ptq.model.graph import Graph
from ptq.model.metadata import read_record, write_record
from ptq.model.node import (
    DEQUANTIZE_OPS,
    QUANTIZE_OPS,
    Node,
    Value,
    get_dtype,
    get_name,
    get_operator,
    list_consumers,
)
from ptq.model.open import Model, open_model
from ptq.model.qdq.qdq_units import QuantizedTensor, read_quantizer
from ptq.rewrite.border.float_border import explain_float_border
from ptq.rewrite.emit.allow_16_bits import allow_16_bits

BORDER = "ptq.io"
"""Metadata: the type of each input and output that was changed, by name; of integers also scale and zero point."""
_HALVES = {"type": FLOAT16.name}


def with_integer_border(graph: Graph) -> Graph:
    """A copy of the graph whose quantized inputs and outputs hold integers.

    Raises:
        UnsupportedError: No input and no output is quantized.
    """
    changed = without_casts_at_integers(graph)
    record = {
        "inputs": dict(_quantize_inputs(changed)),
        "outputs": dict(_quantize_outputs(changed)),
    }
    if not any(record.values()):
        raise UnsupportedError(
            f"{explain_float_border(graph)}; leave `io` out, or choose target litert"
        )
    changed.remove_unused()
    write_record(changed, BORDER, record)
    return changed


def without_casts_at_integers(graph: Graph) -> Graph:
    """A copy of the graph that is float32 where a float16 or float64 border is cast from or to integers' floats."""
    changed = graph.copy()
    for value in changed.inputs:
        casts = list_consumers(value)
        if not casts or not all(find_input_behind_cast(cast.outputs[0]) is value for cast in casts):
            continue
        readers = [reader for cast in casts for reader in list_consumers(cast.outputs[0])]
        if _find_common_integers(readers) is None:
            continue
        for cast in casts:
            changed.redirect(cast.outputs[0], value)
            changed.remove(cast)
        _set_dtype(value, FLOAT32)
    for value in changed.outputs:
        cast_node = value.producer()
        real = None if cast_node is None else cast_node.inputs[0]
        if real is None or cast_node not in find_casts_to_outputs(real) or real.is_graph_output():
            continue
        if _read_integers(real) is not None:
            _replace_output(changed, value, real, FLOAT32)
    changed.remove_unused()
    return changed


def with_float16_border(graph: Graph) -> Graph:
    """A copy of the graph whose float32 inputs and outputs are float16, with a Cast behind or before each."""
    changed = graph.copy()
    record: dict[str, dict[str, Any]] = {"inputs": {}, "outputs": {}}
    for value in changed.inputs:
        if get_dtype(value) == FLOAT32:
            _set_dtype(value, FLOAT16)
            readers = [use.node for use in value.uses()]
            _cast_input(changed, value, readers)
            record["inputs"][get_name(value)] = _HALVES
    for value in changed.outputs:
        if get_dtype(value) == FLOAT32 and not value.is_graph_input():
            name = get_name(value)
            half = _cast_to_halves(changed, value, f"{name}_float16", after=value.producer())
            _replace_output(changed, value, half, FLOAT16)
            record["outputs"][name] = _HALVES
    changed.sort()
    write_record(changed, BORDER, record)
    return changed


def _cast_to_halves(graph: Graph, value: Value, output: str, **place: Node | None) -> Value:
    return graph.insert(
        "Cast", [value], attrs={"to": int(ir.DataType.FLOAT16)}, output=output, dtype=FLOAT16,
        shape_like=value, **place,
    )  # fmt: skip


def _cast_input(graph: Graph, value: Value, readers: list[Node]) -> None:
    if not readers:
        return
    real = graph.insert(
        "Cast", [value], before=graph.nodes[0], attrs={"to": int(ir.DataType.FLOAT)},
        output=f"{get_name(value)}_float32", dtype=FLOAT32, shape_like=value,
    )  # fmt: skip
    cast = real.producer()
    graph.redirect(value, real, keep=[] if cast is None else [cast])


def _quantize_inputs(graph: Graph) -> Iterator[tuple[str, dict[str, Any]]]:
    for value in graph.inputs:
        first = _find_common_integers(list_consumers(value))
        if first is None or value.is_graph_output():
            continue
        for node in list_consumers(value):
            graph.redirect(node.outputs[0], value)
            graph.remove(node)
        _set_dtype(value, first.params.qtype.dtype)
        yield get_name(value), _describe(first.params)


def _find_common_integers(readers: Sequence[Node]) -> QuantizedTensor | None:
    """What quantizers of equal parameters write; None if other nodes read the value too, or a scale has an axis."""
    found = [_find_written_integers(node) for node in readers]
    first = found[0] if found else None
    if first is None or any(f is None or f.params != first.params for f in found):
        return None
    return first if first.params.axis is None else None


def _find_written_integers(node: Node) -> QuantizedTensor | None:
    if get_operator(node) not in QUANTIZE_OPS:
        return None
    if node.outputs[0].is_graph_output():
        return None
    return read_quantizer(node, node.outputs[0])


def _quantize_outputs(graph: Graph) -> Iterator[tuple[str, dict[str, Any]]]:
    for value in graph.outputs:
        found = _read_integers(value)
        if found is None:
            continue
        integers, name = found.integers, get_name(value)
        if integers.is_initializer() or integers.is_graph_input() or integers.is_graph_output():
            continue
        _replace_output(graph, value, integers, found.params.qtype.dtype)
        yield name, _describe(found.params)


def _read_integers(value: Value) -> QuantizedTensor | None:
    """What a DequantizeLinear makes a value of; None if another node does, or its scale has an axis."""
    node = value.producer()
    if node is None or get_operator(node) not in DEQUANTIZE_OPS:
        return None
    found = read_quantizer(node, node.inputs[0])
    return found if found is not None and found.params.axis is None else None


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
    """The model with float32 inputs and outputs where it has integers or halves by `BORDER`.

    Quantizers or Casts stand there, so that it takes float samples and computes the same.

    Raises:
        ModelError: The model cannot be read, or its record of the border is damaged.
    """
    graph = open_model(model)
    record = read_record(graph, BORDER)
    if record is None:
        return graph
    restored = graph.copy()
    del restored.metadata[BORDER]
    try:
        _restore_inputs(restored, record["inputs"])
        _restore_outputs(restored, record["outputs"])
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"the entry {BORDER} of the model's metadata is damaged ({error!r}); quantize again"
        ) from error
    allow_16_bits(restored)
    restored.sort()
    return restored


def has_integer_border(graph: Graph) -> bool:
    """Whether inputs or outputs hold integers by `BORDER`."""
    sides = (read_record(graph, BORDER) or {}).values()
    return any(entry != _HALVES for entries in sides for entry in entries.values())


def to_border_feed(graph: Graph, feed: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """A feed of floats in the types of the model's inputs, by `BORDER`."""
    entries = (read_record(graph, BORDER) or {}).get("inputs", {})
    return {
        name: _to_type(array, entries[name]) if name in entries else array
        for name, array in feed.items()
    }


def _to_type(array: NDArray[Any], entry: Mapping[str, Any]) -> NDArray[Any]:
    if entry == _HALVES:
        return array.astype(FLOAT16)
    return _read_params(entry).quantize(array)


def _restore_inputs(graph: Graph, entries: Mapping[str, Any]) -> None:
    for value in graph.inputs:
        name = get_name(value)
        if (entry := entries.get(name)) is None:
            continue
        readers, first = [use.node for use in value.uses()], graph.nodes[0]
        if entry == _HALVES:
            made = _cast_to_halves(graph, value, f"{name}_float16", before=first)
        else:
            made = graph.insert(
                "QuantizeLinear", [value, *_add_constants(graph, name, entry)], before=first,
                output=f"{name}_quantized", dtype=np.dtype(entry["type"]), shape_like=value,
            )  # fmt: skip
        maker = made.producer()
        if readers:
            graph.redirect(value, made, keep=[] if maker is None else [maker])
        _set_dtype(value, FLOAT32)


def _restore_outputs(graph: Graph, entries: Mapping[str, Any]) -> None:
    for value in graph.outputs:
        name = get_name(value)
        if (entry := entries.get(name)) is None:
            continue
        is_half = entry == _HALVES
        real = graph.insert(
            "Cast" if is_half else "DequantizeLinear",
            [value] if is_half else [value, *_add_constants(graph, name, entry)],
            attrs={"to": int(ir.DataType.FLOAT)} if is_half else {},
            after=value.producer(), output=f"{name}_dequantized", dtype=FLOAT32, shape_like=value,
        )  # fmt: skip
        graph.replace_output(value, real)
        _set_dtype(value, np.dtype(entry["type"]))
        _set_dtype(real, FLOAT32)


def _add_constants(graph: Graph, name: str, entry: Mapping[str, Any]) -> list[Value]:
    params = _read_params(entry)
    return [
        graph.add_constant(params.scale, f"{name}_scale"),
        graph.add_constant(params.zero_point.astype(params.qtype.dtype), f"{name}_zero_point"),
    ]


def _read_params(entry: Mapping[str, Any]) -> QuantParams:
    dtype = np.dtype(entry["type"])
    info = np.iinfo(dtype)
    kind = QType(dtype.itemsize * 8, dtype.kind == "i", int(info.min), int(info.max))
    return QuantParams.per_tensor(float(entry["scale"]), int(entry["zero_point"]), kind)
