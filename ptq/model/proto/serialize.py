"""A model as the bytes of its message, in pieces: large weights are views of their memory, not copies.

A message of protobuf is a row of fields, sorted by number: a key, a length, the content. So the content of a weight
can be put between the fields before and after it, and only the small fields are serialized by the library. The
pieces together are the bytes that protobuf writes for the whole message.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING

import onnx
import onnx_ir as ir

from ptq.model.proto import external_data
from ptq.model.proto.external_data import Buffer, copy_field

if TYPE_CHECKING:
    from google.protobuf.message import Message

_LENGTH_DELIMITED = 2
"""The wire type of strings, bytes and messages; https://protobuf.dev/programming-guides/encoding/."""
_GRAPH = onnx.ModelProto.GRAPH_FIELD_NUMBER
_INITIALIZER = onnx.GraphProto.INITIALIZER_FIELD_NUMBER
_RAW_DATA = onnx.TensorProto.RAW_DATA_FIELD_NUMBER
FILE_ALIGNMENT = 4096
"""Alignment of tensors in a weight file: one page, so that they can be memory-mapped."""
_KNOWN_DIGESTS: dict[tuple[str, tuple[tuple[str, weakref.ref[ir.TensorProtocol]], ...]], str] = {}
"""Digests of the latest graphs, by the digest of all but large weights, and by these, which no code changes."""
_DIGESTS_KEPT = 4


def to_pieces(model: ir.Model) -> list[Buffer]:
    """The serialized model in pieces.

    Raises:
        ModelError: The weights exceed the limit of a message.
    """
    external_data.require_one_message(model)
    contents = {
        name: external_data.to_little_endian_bytes(tensor)
        for name, tensor in external_data.list_large_initializers(model)
        if not isinstance(tensor, ir.TensorProtoTensor)  # its message may store it in another field
    }
    values = model.graph.initializers.items()
    shell = external_data.with_other_weights(
        model,
        [
            external_data.with_reference(value, "", None, None) if name in contents else value
            for name, value in values
        ],
    )
    proto = ir.to_proto(shell)
    weights = chain.from_iterable(
        _wrap(_INITIALIZER, _list_tensor_pieces(tensor, contents))
        for tensor in proto.graph.initializer
    )
    graph = _put_between(proto.graph, _INITIALIZER, weights)
    return _put_between(proto, _GRAPH, _wrap(_GRAPH, graph))


def count_serialized_bytes(model: ir.Model) -> int:
    """Bytes of the saved model, in one file or two."""
    if external_data.count_weight_bytes(model) > external_data.MAX_PROTO_BYTES:
        large = external_data.list_large_initializers(model)
        return len(external_data.as_buffers(model)[0]) + sum(tensor.nbytes for _, tensor in large)
    return sum(map(len, to_pieces(model)))


def digest_graph(model: ir.Model) -> str:
    """SHA-256 of nodes, attributes, weights and names, without the model's metadata."""
    proto, detached = external_data.detach_weights(model)
    head = repr(sorted((o.domain, o.version) for o in proto.opset_import)).encode()
    found = hashlib.sha256(head + proto.graph.SerializeToString(deterministic=True))
    weights = sorted(detached.tensors.items())
    key = found.hexdigest(), tuple((name, weakref.ref(tensor)) for name, tensor in weights)
    if key in _KNOWN_DIGESTS:
        return _KNOWN_DIGESTS[key]
    for name, tensor in weights:
        found.update(f"{name!r} {tensor.dtype} {tensor.shape}".encode())
        found.update(external_data.to_little_endian_bytes(tensor))
    while len(_KNOWN_DIGESTS) >= _DIGESTS_KEPT:
        del _KNOWN_DIGESTS[next(iter(_KNOWN_DIGESTS))]
    return _KNOWN_DIGESTS.setdefault(key, found.hexdigest())


def serialize_with_weight_file(model: ir.Model, location: str) -> tuple[bytes, Iterator[Buffer]]:
    """The serialized model, and in chunks the content of the one file to which it refers for large weights."""
    places, end = {}, 0
    for name, tensor in external_data.list_large_initializers(model):
        places[name] = (location, end, tensor.nbytes)
        end += _align_size(tensor.nbytes)
    return external_data.serialize_with_references(model, places), _list_weight_chunks(model)


def _align_size(size: int) -> int:
    return -(-size // FILE_ALIGNMENT) * FILE_ALIGNMENT


def _list_weight_chunks(model: ir.Model) -> Iterator[Buffer]:
    for _, tensor in external_data.list_large_initializers(model):
        yield external_data.to_little_endian_bytes(tensor)
        yield bytes(_align_size(tensor.nbytes) - tensor.nbytes)


def _list_tensor_pieces(tensor: onnx.TensorProto, contents: Mapping[str, Buffer]) -> list[Buffer]:
    if tensor.name not in contents:
        return [tensor.SerializeToString(deterministic=True)]
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")
    return _put_between(tensor, _RAW_DATA, _wrap(_RAW_DATA, [contents[tensor.name]]))


def _put_between(
    message: Message, field: int, content: Iterator[Buffer] | list[Buffer]
) -> list[Buffer]:
    """The serialized message with ``content`` in place of the field."""
    before, after = type(message)(), type(message)()
    for descriptor, value in message.ListFields():
        if descriptor.number != field:
            part = before if descriptor.number < field else after
            copy_field(part, descriptor.name, value)
    return [
        before.SerializeToString(deterministic=True),
        *content,
        after.SerializeToString(deterministic=True),
    ]


def _wrap(field: int, content: list[Buffer]) -> list[Buffer]:
    """A field: its key, the length of its content, the content."""
    key = _encode_varint(field << 3 | _LENGTH_DELIMITED)
    return [key + _encode_varint(sum(map(len, content))), *content]


def _encode_varint(number: int) -> bytes:
    """A number in groups of 7 bits, the lowest first; the high bit says that another follows."""
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])
