"""Weights outside a model's message, because protobuf cannot write a message of 2 GiB.

Each message that holds weights is a copy of them. So ONNX's library only gets models whose large weights are inputs.
Above the limit, ONNX Runtime and the model file get a message that refers to weights stored elsewhere.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray
from onnx import helper

from ptq.core.errors import ModelError

if TYPE_CHECKING:
    from google.protobuf.message import Message

Buffer = bytes | memoryview
MAX_PROTO_BYTES = 2**31 - 2**24
"""Bytes of weights up to which a message can be written; protobuf's limit is 2 GiB."""
ALWAYS_INLINE_BYTES = 1024
"""Bytes up to which a tensor stays in every message. Shape inference reads shapes, axes and scales."""
INLINE_BYTES = 2**16
"""Bytes up to which a tensor stays in a message below the limit: a copy costs less than detaching it."""


@dataclass(frozen=True, eq=False)
class DetachedWeights:
    """Weights that are inputs in a message.

    Attributes:
        tensors: The weights by name.
        initializer_names: Names of all initializers of the model in order, including those in the message.
    """

    tensors: Mapping[str, ir.TensorProtocol]
    initializer_names: tuple[str, ...]


def separate_weights(proto: onnx.ModelProto) -> tuple[onnx.ModelProto, dict[str, onnx.TensorProto]]:
    """The model with its large initializers as inputs, and these initializers.

    The given model is not changed; it is returned if it has no large initializer. Other files are not read.
    """
    limit = _get_inline_limit(sum(map(count_declared_bytes, proto.graph.initializer)))
    if all(count_declared_bytes(tensor) <= limit for tensor in proto.graph.initializer):
        return proto, {}
    shell, taken = onnx.ModelProto(), {}
    _copy_fields(proto, shell, without="graph")
    _copy_fields(proto.graph, shell.graph, without="initializer")
    inputs = {value.name for value in proto.graph.input}
    for tensor in proto.graph.initializer:
        if count_declared_bytes(tensor) <= limit:
            shell.graph.initializer.append(tensor)
            continue
        taken[tensor.name] = tensor
        if tensor.name not in inputs:
            info = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            shell.graph.input.append(info)
    return shell, taken


def _get_inline_limit(total_bytes: int) -> int:
    """Bytes up to which a tensor stays in the message of a model whose weights have these bytes in total."""
    return ALWAYS_INLINE_BYTES if total_bytes > MAX_PROTO_BYTES else INLINE_BYTES


def count_declared_bytes(tensor: onnx.TensorProto) -> int:
    """Bytes of a tensor according to its type and shape; 0 if its type has no fixed size, e.g. strings."""
    try:
        bits = ir.DataType(tensor.data_type).bitwidth
    except (ValueError, TypeError):
        return 0
    count: int = math.prod(tensor.dims)
    return max((bits * count + 7) // 8, 0)


def _copy_fields(source: Message, target: Message, *, without: str) -> None:
    for field, value in source.ListFields():
        if field.name == without:
            continue
        copy_field(target, field.name, value)


def copy_field(target: Message, name: str, value: object) -> None:
    """Set a field of a message to the value that the same field of another message has."""
    if isinstance(value, (str, bytes, int, float)):
        setattr(target, name, value)
    else:
        getattr(target, name).MergeFrom(value)


def to_ir_tensor(tensor: onnx.TensorProto) -> ir.TensorProtocol:
    """The tensor outside its message, because each read from a message copies the data."""
    kept = ir.TensorProtoTensor(tensor)
    if kept.dtype.bitwidth < 8:
        return kept
    return ir.Tensor(kept.numpy(), dtype=kept.dtype, name=kept.name)


def materialize_weights(model: ir.Model) -> None:
    """Replace large weights that are still in messages by plain tensors, in place. See `to_ir_tensor`."""
    for value in model.graph.initializers.values():
        tensor = value.const_value
        if (
            isinstance(tensor, ir.TensorProtoTensor)
            and tensor.dtype.bitwidth >= 8
            and tensor.nbytes > INLINE_BYTES
        ):
            value.const_value = ir.Tensor(tensor.numpy(), dtype=tensor.dtype, name=tensor.name)


def detach_weights(model: ir.Model) -> tuple[onnx.ModelProto, DetachedWeights]:
    """The model as a message with its large weights as inputs, and these weights."""
    taken, values = dict(list_large_initializers(model)), model.graph.initializers
    detached = DetachedWeights(taken, tuple(values))
    inputs = [_copy_value(values[name], None) for name in taken]
    for value, tensor in zip(inputs, taken.values(), strict=True):
        value.type, value.shape = ir.TensorType(tensor.dtype), ir.Shape(tensor.shape.numpy())
    kept = [value for name, value in values.items() if name not in taken]
    return ir.to_proto(with_other_weights(model, kept, inputs)), detached


def with_other_weights(
    model: ir.Model, initializers: Sequence[ir.Value], inputs: Sequence[ir.Value] = ()
) -> ir.Model:
    """The model with these initializers, and more inputs, to be serialized only: it shares the nodes."""
    graph, shell = model.graph, copy(model)
    view = ir.GraphView(
        [*graph.inputs, *inputs],
        graph.outputs,
        nodes=graph,
        initializers=initializers,
        doc_string=graph.doc_string,
        opset_imports=graph.opset_imports,
        name=graph.name,
        metadata_props=graph.metadata_props,
    )
    shell.graph = cast(ir.Graph, view)  # onnx_ir serializes both
    return shell


def with_reference(
    value: ir.Value, location: str, offset: int | None, length: int | None
) -> ir.Value:
    """A copy of an initializer that refers to a file for its data."""
    tensor = value.const_value
    assert tensor is not None
    reference = ir.ExternalTensor(
        location,
        offset,
        length,
        tensor.dtype,
        shape=ir.Shape(tensor.shape.numpy()),
        name=value.name or "",
        doc_string=tensor.doc_string,
        metadata_props=dict(tensor.metadata_props),
    )
    return _copy_value(value, reference)


def _copy_value(value: ir.Value, tensor: ir.TensorProtocol | None) -> ir.Value:
    """A value of the same name without readers."""
    return ir.Value(
        name=value.name,
        type=value.type,
        shape=value.shape,
        doc_string=value.doc_string,
        const_value=tensor,
        metadata_props=dict(value.metadata_props),
    )


def restore_weights(model: ir.Model, detached: DetachedWeights) -> None:
    """Turn the inputs that stand for weights back into initializers, in place and in the original order."""
    inputs = {value.name: value for value in model.graph.inputs}
    found = {name: tensor for name, tensor in detached.tensors.items() if name in inputs}
    if not found:
        return
    kept = [value for value in model.graph.inputs if value.name not in found]
    model.graph.inputs.clear()
    model.graph.inputs.extend(kept)
    for name, tensor in found.items():
        inputs[name].const_value = tensor
        model.graph.register_initializer(inputs[name])
    initializers, order = model.graph.initializers, dict.fromkeys(detached.initializer_names)
    before = [name for name in order if name in initializers]
    for name in [*before, *(name for name in initializers if name not in order)]:
        initializers.add(initializers.pop(name))


def merge_weights(proto: onnx.ModelProto, detached: DetachedWeights) -> ir.Model:
    """The model of a message and its detached weights."""
    model = ir.from_proto(proto)
    restore_weights(model, detached)
    return model


def count_weight_bytes(model: ir.Model) -> int:
    """Total bytes of the main graph's initializers."""
    return sum(tensor.nbytes for _, tensor in _list_numeric_initializers(model))


def _list_numeric_initializers(model: ir.Model) -> Iterator[tuple[str, ir.TensorProtocol]]:
    """Initializers of the main graph, except strings, which have no fixed size."""
    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        if tensor is not None and tensor.dtype != ir.DataType.STRING:
            yield name, tensor


def list_large_initializers(model: ir.Model) -> Iterator[tuple[str, ir.TensorProtocol]]:
    """Weights that are too large to be copied into each message, by name."""
    sized = [(name, tensor, tensor.nbytes) for name, tensor in _list_numeric_initializers(model)]
    limit = _get_inline_limit(sum(size for _, _, size in sized))
    return ((name, tensor) for name, tensor, size in sized if size > limit)


def to_proto(model: ir.Model) -> onnx.ModelProto:
    """The model as a message with all its weights, a copy.

    Raises:
        ModelError: The weights exceed the limit of a message.
    """
    require_one_message(model)
    return ir.to_proto(model)


def require_one_message(model: ir.Model) -> None:
    """Refuse a model that one message cannot hold.

    Raises:
        ModelError: The weights exceed the limit of a message.
    """
    if count_weight_bytes(model) > MAX_PROTO_BYTES:
        raise ModelError(
            "the model has over 2 GB of weights, too many for one message; save it to a file"
        )


def as_buffers(
    model: ir.Model, *, sub_byte: bool = True
) -> tuple[bytes, dict[str, tuple[str, ir.TensorProtocol]]]:
    """The serialized model, and its large weights as files of one tensor each, to which the model refers.

    Unused weights are omitted, because ONNX Runtime drops them before it reads them. Without ``sub_byte``, weights
    of less than 8 bits an element stay in the message.

    Returns:
        The bytes, and for each file name the weight's name and the weight.
    """
    read = [
        item
        for item in list_large_initializers(model)
        if not _is_unused(model.graph.initializers[item[0]])
        and (sub_byte or item[1].dtype.bitwidth >= 8)
    ]
    files = {f"weights{number}": item for number, item in enumerate(read)}
    places = {name: (file, 0, tensor.nbytes) for file, (name, tensor) in files.items()}
    return serialize_with_references(model, places, without=_is_unused), files


def _is_unused(value: ir.Value) -> bool:
    return not value.uses() and not value.is_graph_output()


def serialize_with_references(
    model: ir.Model,
    places: Mapping[str, tuple[str, int, int]],
    *,
    without: Callable[[ir.Value], bool] = lambda value: False,
) -> bytes:
    """The serialized model, which refers to some weights by file, offset and length, and omits some."""
    initializers = [
        value if name not in places else with_reference(value, *places[name])
        for name, value in model.graph.initializers.items()
        if not without(value)
    ]
    data: bytes = ir.to_proto(with_other_weights(model, initializers)).SerializeToString(
        deterministic=True
    )
    return data


def to_little_endian_bytes(tensor: ir.TensorProtocol) -> Buffer:
    """The tensor's data in little-endian order; not copied if memory already holds them so."""
    if tensor.dtype.bitwidth < 8 or sys.byteorder == "big":
        return tensor.tobytes()
    flat: NDArray[np.uint8] = np.ascontiguousarray(tensor.numpy()).reshape(-1).view(np.uint8)
    return flat.data
