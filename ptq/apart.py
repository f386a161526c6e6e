"""How does a model travel whose weights are more than a message may hold?

Protobuf writes no message of 2 GiB. What ONNX's library is asked of such a model, it is asked of one in which the
large weights are inputs; ONNX Runtime and the file get a model that says where its weights are.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray
from onnx import helper

if TYPE_CHECKING:
    from google.protobuf.message import Message

LARGEST = 2**31 - 2**24
"""Bytes of weights with which a message can still be written; protobuf ends at 2 GiB."""
SMALL = 1024
"""Bytes up to which a tensor stays in the message: shapes, axes and scales, which shape inference reads."""
ALIGNED = 4096
"""Where a tensor begins in a file: at a multiple of a page, so that it can be mapped."""

Tensors = dict[str, ir.TensorProtocol]
Buffer = bytes | memoryview


def parted(proto: onnx.ModelProto) -> tuple[onnx.ModelProto, dict[str, onnx.TensorProto]]:
    """A model of too much weight with its large initializers as inputs, and those; else the given one.

    The model is not changed. What lies in another file is not read.
    """
    if sum(map(size_of, proto.graph.initializer)) <= LARGEST:
        return proto, {}
    shell, taken = onnx.ModelProto(), {}
    _merge(proto, shell, without="graph")
    _merge(proto.graph, shell.graph, without="initializer")
    inputs = {value.name for value in proto.graph.input}
    for tensor in proto.graph.initializer:
        if size_of(tensor) <= SMALL:
            shell.graph.initializer.append(tensor)
            continue
        taken[tensor.name] = tensor
        if tensor.name not in inputs:
            info = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            shell.graph.input.append(info)
    return shell, taken


def size_of(tensor: onnx.TensorProto) -> int:
    """Bytes that the tensor says it has; 0 where that cannot be told, of strings for one."""
    try:
        bits = ir.DataType(tensor.data_type).bitwidth
    except (ValueError, TypeError):
        return 0
    count: int = math.prod(tensor.dims)
    return max(bits * count // 8, 0)


def _merge(source: Message, target: Message, *, without: str) -> None:
    """Copy what a message has, but for one field."""
    for field, value in source.ListFields():
        if field.name == without:
            continue
        if isinstance(value, (str, bytes, int, float)):
            setattr(target, field.name, value)
        else:
            getattr(target, field.name).MergeFrom(value)


def in_memory(tensor: onnx.TensorProto) -> ir.TensorProtocol:
    """A tensor that keeps its numbers once, not in a message whose every reading is a copy."""
    kept = ir.TensorProtoTensor(tensor)
    if kept.dtype.bitwidth < 8:
        return kept
    return ir.Tensor(kept.numpy(), dtype=kept.dtype, name=kept.name)


def outline(model: ir.Model) -> tuple[onnx.ModelProto, Tensors]:
    """The model as a message, and the weights that are inputs there; none where it holds all of them."""
    if weight_of(model) <= LARGEST:
        return ir.to_proto(model), {}
    shell = model.clone()
    taken = {}
    for name, tensor in _large(model):
        value = shell.graph.initializers.pop(name)
        value.const_value = None
        value.type, value.shape = ir.TensorType(tensor.dtype), ir.Shape(tensor.shape.numpy())
        shell.graph.inputs.append(value)
        taken[name] = tensor
    return ir.to_proto(shell), taken


def put_back(model: ir.Model, weights: Mapping[str, ir.TensorProtocol]) -> None:
    """Make initializers of the inputs that stand for weights, in place."""
    inputs = {value.name: value for value in model.graph.inputs}
    for name in weights.keys() & inputs.keys():
        model.graph.inputs.remove(inputs[name])
    for name, tensor in weights.items():
        if name in inputs:
            inputs[name].const_value = tensor
            model.graph.register_initializer(inputs[name])


def joined(proto: onnx.ModelProto, weights: Mapping[str, ir.TensorProtocol]) -> ir.Model:
    """The model that a message and its weights make."""
    model = ir.from_proto(proto)
    put_back(model, weights)
    return model


def weight_of(model: ir.Model) -> int:
    """Bytes of the main graph's initializers."""
    return sum(tensor.nbytes for _, tensor in _tensors(model))


def _tensors(model: ir.Model) -> Iterator[tuple[str, ir.TensorProtocol]]:
    """The main graph's initializers but for strings, whose size nobody says."""
    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        if tensor is not None and tensor.dtype != ir.DataType.STRING:
            yield name, tensor


def _large(model: ir.Model) -> Iterator[tuple[str, ir.TensorProtocol]]:
    return ((name, tensor) for name, tensor in _tensors(model) if tensor.nbytes > SMALL)


def digest(model: ir.Model) -> str:
    """SHA-256 of the graph: nodes, attributes, weights and names, without the model's metadata."""
    proto, weights = outline(model)
    head = repr(sorted((o.domain, o.version) for o in proto.opset_import)).encode()
    found = hashlib.sha256(head + proto.graph.SerializeToString(deterministic=True))
    for name, tensor in sorted(weights.items()):
        found.update(f"{name!r} {tensor.dtype} {tensor.shape}".encode())
        found.update(_bytes_of(tensor))
    return found.hexdigest()


def in_pieces(model: ir.Model) -> tuple[bytes, dict[str, Buffer]]:
    """The model serialized, and the files, each one tensor, that it says its large weights are in."""
    large = dict(_large(model)) if weight_of(model) > LARGEST else {}
    names = {name: f"weights{number}" for number, name in enumerate(large)}
    data = _referring(model, {name: (file, 0) for name, file in names.items()})
    return data, {names[name]: _bytes_of(tensor) for name, tensor in large.items()}


def with_file(model: ir.Model, location: str) -> tuple[bytes, Iterator[Buffer]]:
    """The model serialized, and piece by piece the one file that it says its large weights are in."""
    places, end = {}, 0
    for name, tensor in _large(model):
        places[name] = (location, end)
        end += _padded(tensor.nbytes)
    return _referring(model, places), _pieces(model)


def _padded(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED


def _pieces(model: ir.Model) -> Iterator[Buffer]:
    for _, tensor in _large(model):
        yield _bytes_of(tensor)
        yield bytes(_padded(tensor.nbytes) - tensor.nbytes)


def _referring(model: ir.Model, places: Mapping[str, tuple[str, int]]) -> bytes:
    """The model serialized with some weights in other files, each at an offset."""
    shell = model.clone() if places else model
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


def _bytes_of(tensor: ir.TensorProtocol) -> Buffer:
    """The numbers as a file has them, little-endian; without a copy where they lie in memory like that."""
    if tensor.dtype.bitwidth < 8 or sys.byteorder == "big":
        return tensor.tobytes()
    flat: NDArray[np.uint8] = np.ascontiguousarray(tensor.numpy()).reshape(-1).view(np.uint8)
    return flat.data
