"""How do large weights travel beside a model's message?

Protobuf writes no message of 2 GiB, and below that every message that holds weights is a copy of them. What ONNX's
library is asked of a model, it is asked of one in which the large weights are inputs; where they are more than a
message may hold, ONNX Runtime and the file get a model that says where its weights are.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray
from onnx import helper

from ptq.core.errors import ModelError

if TYPE_CHECKING:
    from google.protobuf.message import Message

MAX_PROTO_BYTES = 2**31 - 2**24
"""Bytes of weights with which a message can still be written; protobuf ends at 2 GiB."""
ALWAYS_INLINE_BYTES = 1024
"""Bytes up to which a tensor stays in every message: shapes, axes and scales, which shape inference reads."""
INLINE_BYTES = 2**16
"""Bytes up to which it stays in a message that may hold all: to copy it costs less than to set it aside."""
FILE_ALIGNMENT = 4096
"""Where a tensor begins in a file: at a multiple of a page, so that it can be mapped."""

Buffer = bytes | memoryview


@dataclass(frozen=True, eq=False)
class DetachedWeights:
    """Weights that a message has as inputs.

    Attributes:
        tensors: They, by name.
        order: The names of all initializers, those in the message too, in the model's order.
    """

    tensors: Mapping[str, ir.TensorProtocol]
    initializer_names: tuple[str, ...]


def separate_weights(proto: onnx.ModelProto) -> tuple[onnx.ModelProto, dict[str, onnx.TensorProto]]:
    """A model with its large initializers as inputs, and those; the given one where it has none.

    The model is not changed. What lies in another file is not read.
    """
    most = _inline_limit(sum(map(declared_bytes, proto.graph.initializer)))
    if all(declared_bytes(tensor) <= most for tensor in proto.graph.initializer):
        return proto, {}
    shell, taken = onnx.ModelProto(), {}
    _copy_fields(proto, shell, without="graph")
    _copy_fields(proto.graph, shell.graph, without="initializer")
    inputs = {value.name for value in proto.graph.input}
    for tensor in proto.graph.initializer:
        if declared_bytes(tensor) <= most:
            shell.graph.initializer.append(tensor)
            continue
        taken[tensor.name] = tensor
        if tensor.name not in inputs:
            info = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            shell.graph.input.append(info)
    return shell, taken


def _inline_limit(weight: int) -> int:
    """Bytes up to which a tensor stays in the message of a model with so many bytes of weights."""
    return ALWAYS_INLINE_BYTES if weight > MAX_PROTO_BYTES else INLINE_BYTES


def declared_bytes(tensor: onnx.TensorProto) -> int:
    """Bytes that the tensor says it has; 0 where that cannot be told, of strings for one."""
    try:
        bits = ir.DataType(tensor.data_type).bitwidth
    except (ValueError, TypeError):
        return 0
    count: int = math.prod(tensor.dims)
    return max(bits * count // 8, 0)


def _copy_fields(source: Message, target: Message, *, without: str) -> None:
    """Copy what a message has, but for one field."""
    for field, value in source.ListFields():
        if field.name == without:
            continue
        if isinstance(value, (str, bytes, int, float)):
            setattr(target, field.name, value)
        else:
            getattr(target, field.name).MergeFrom(value)


def to_ir_tensor(tensor: onnx.TensorProto) -> ir.TensorProtocol:
    """A tensor that keeps its numbers once, not in a message whose every reading is a copy."""
    kept = ir.TensorProtoTensor(tensor)
    if kept.dtype.bitwidth < 8:
        return kept
    return ir.Tensor(kept.numpy(), dtype=kept.dtype, name=kept.name)


def materialize_weights(model: ir.Model) -> None:
    """Take large weights that are left in messages, where each reading copies them, out of these, in place."""
    for value in model.graph.initializers.values():
        tensor = value.const_value
        if (
            isinstance(tensor, ir.TensorProtoTensor)
            and tensor.dtype.bitwidth >= 8
            and tensor.nbytes > INLINE_BYTES
        ):
            value.const_value = ir.Tensor(tensor.numpy(), dtype=tensor.dtype, name=tensor.name)


def proto_without_weights(model: ir.Model) -> tuple[onnx.ModelProto, DetachedWeights]:
    """The model as a message, and the weights that are inputs there."""
    taken = dict(_large_initializers(model))
    aside = DetachedWeights(taken, tuple(model.graph.initializers))
    if not taken:
        return ir.to_proto(model), aside
    shell = model.clone()
    for name, tensor in taken.items():
        value = shell.graph.initializers.pop(name)
        value.const_value = None
        value.type, value.shape = ir.TensorType(tensor.dtype), ir.Shape(tensor.shape.numpy())
        shell.graph.inputs.append(value)
    return ir.to_proto(shell), aside


def restore_weights(model: ir.Model, aside: DetachedWeights) -> None:
    """Make initializers of the inputs that stand for weights, in place and in their order."""
    inputs = {value.name: value for value in model.graph.inputs}
    found = {name: tensor for name, tensor in aside.tensors.items() if name in inputs}
    if not found:
        return
    kept = [value for value in model.graph.inputs if value.name not in found]
    model.graph.inputs.clear()
    model.graph.inputs.extend(kept)
    for name, tensor in found.items():
        inputs[name].const_value = tensor
        model.graph.register_initializer(inputs[name])
    initializers, place = model.graph.initializers, dict.fromkeys(aside.initializer_names)
    before = [name for name in place if name in initializers]
    for name in [*before, *(name for name in initializers if name not in place)]:
        initializers.add(initializers.pop(name))


def merge_weights(proto: onnx.ModelProto, aside: DetachedWeights) -> ir.Model:
    """The model that a message and its weights make."""
    model = ir.from_proto(proto)
    restore_weights(model, aside)
    return model


def weight_bytes(model: ir.Model) -> int:
    """Bytes of the main graph's initializers."""
    return sum(tensor.nbytes for _, tensor in _numeric_initializers(model))


def _numeric_initializers(model: ir.Model) -> Iterator[tuple[str, ir.TensorProtocol]]:
    """The main graph's initializers but for strings, whose size nobody says."""
    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        if tensor is not None and tensor.dtype != ir.DataType.STRING:
            yield name, tensor


def _large_initializers(model: ir.Model) -> Iterator[tuple[str, ir.TensorProtocol]]:
    most = _inline_limit(weight_bytes(model))
    return ((name, tensor) for name, tensor in _numeric_initializers(model) if tensor.nbytes > most)


def graph_digest(model: ir.Model) -> str:
    """SHA-256 of the graph: nodes, attributes, weights and names, without the model's metadata."""
    proto, aside = proto_without_weights(model)
    head = repr(sorted((o.domain, o.version) for o in proto.opset_import)).encode()
    found = hashlib.sha256(head + proto.graph.SerializeToString(deterministic=True))
    for name, tensor in sorted(aside.tensors.items()):
        found.update(f"{name!r} {tensor.dtype} {tensor.shape}".encode())
        found.update(little_endian_bytes(tensor))
    return found.hexdigest()


def to_proto(model: ir.Model) -> onnx.ModelProto:
    """The model as a message with all its weights, a copy.

    Raises:
        ModelError: They are more than a message may hold.
    """
    if weight_bytes(model) > MAX_PROTO_BYTES:
        raise ModelError("over 2 GB of weights do not go into one piece; save them to a file")
    return ir.to_proto(model)


def serialized_size(model: ir.Model) -> int:
    """Bytes that the model takes, in one file or two."""
    if weight_bytes(model) > MAX_PROTO_BYTES:
        return len(as_buffers(model)[0]) + sum(t.nbytes for _, t in _large_initializers(model))
    count: int = to_proto(model).ByteSize()
    return count


def as_buffers(model: ir.Model) -> tuple[bytes, dict[str, tuple[str, ir.TensorProtocol]]]:
    """The model serialized, and the large weights by the files, of one tensor each, that it says they are in.

    Weights that nothing reads are left out: ONNX Runtime drops them before it looks for them.

    Returns:
        The bytes; and by file the weight's name and the weight.
    """
    read = [
        item
        for item in _large_initializers(model)
        if not _is_unused(model.graph.initializers[item[0]])
    ]
    files = {f"weights{number}": item for number, item in enumerate(read)}
    places = {name: (file, 0) for file, (name, _) in files.items()}
    return _serialize_with_references(model, places, without=_is_unused), files


def _is_unused(value: ir.Value) -> bool:
    return not value.uses() and not value.is_graph_output()


def serialize_with_weight_file(model: ir.Model, location: str) -> tuple[bytes, Iterator[Buffer]]:
    """The model serialized, and piece by piece the one file that it says its large weights are in."""
    places, end = {}, 0
    for name, tensor in _large_initializers(model):
        places[name] = (location, end)
        end += _aligned_size(tensor.nbytes)
    return _serialize_with_references(model, places), _weight_chunks(model)


def _aligned_size(size: int) -> int:
    return -(-size // FILE_ALIGNMENT) * FILE_ALIGNMENT


def _weight_chunks(model: ir.Model) -> Iterator[Buffer]:
    for _, tensor in _large_initializers(model):
        yield little_endian_bytes(tensor)
        yield bytes(_aligned_size(tensor.nbytes) - tensor.nbytes)


def _serialize_with_references(
    model: ir.Model,
    places: Mapping[str, tuple[str, int]],
    *,
    without: Callable[[ir.Value], bool] = lambda value: False,
) -> bytes:
    """The model serialized with some weights in other files, each at an offset, and without some."""
    left = [name for name, value in model.graph.initializers.items() if without(value)]
    shell = model.clone() if places or left else model
    for name in left:
        shell.graph.initializers.pop(name)
    for name, (location, offset) in places.items():
        value = shell.graph.initializers[name]
        tensor = value.const_value
        assert tensor is not None
        value.const_value = ir.ExternalTensor(
            location,
            offset,
            tensor.nbytes,
            tensor.dtype,
            shape=ir.Shape(tensor.shape.numpy()),
            name=name,
        )
    data: bytes = ir.to_proto(shell).SerializeToString(deterministic=True)
    return data


def little_endian_bytes(tensor: ir.TensorProtocol) -> Buffer:
    """The numbers as a file has them, little-endian; without a copy where they lie in memory like that."""
    if tensor.dtype.bitwidth < 8 or sys.byteorder == "big":
        return tensor.tobytes()
    flat: NDArray[np.uint8] = np.ascontiguousarray(tensor.numpy()).reshape(-1).view(np.uint8)
    return flat.data
