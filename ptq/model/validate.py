"""What must hold of a model that ONNX's own checker does not look at, and its libraries then fall over?"""

from __future__ import annotations

import math
from collections.abc import Iterator

import onnx
import onnx.defs
import onnx_ir as ir
from google.protobuf.message import Message
from onnx import numpy_helper

from ptq.core.errors import ModelError
from ptq.model.external_data import MAX_PROTO_BYTES, declared_bytes
from ptq.model.proto_walk import Body, all_nodes, all_tensors, subgraphs_of

_DIVISOR_ATTRIBUTES = {
    "Attention": ("kv_num_heads", "q_num_heads"),
    "Conv": ("group",),
    "ConvTranspose": ("group",),
}
_OPS_NEEDING_ZERO_POINT = ("QLinearLeakyRelu", "QLinearSigmoid")
_ONNX = ("", "ai.onnx")
_MAX_DIVISOR = 2**31
_MAX_NODES = 10**6


def validate(proto: onnx.ModelProto, source: str) -> None:
    """Refuse what would end in an exception, or in the end of the process, further on.

    Raises:
        ModelError: A name is no text, the operators are newer than any known, the graph has no outputs,
            its nodes hold more weight than can be written, a tensor holds more or fewer numbers than its
            shape says, or a node contradicts itself.
    """
    for text in _all_strings(proto):
        if isinstance(text, bytes):  # what protobuf hands out where it is no UTF-8
            raise ModelError(f"{source} has a name that is no UTF-8 text, {text!r}; export it anew")
    newest = onnx.defs.onnx_opset_version()
    for opset in proto.opset_import:
        if opset.domain in _ONNX and opset.version > newest:
            raise ModelError(
                f"{source} is of opset {opset.version}, and {newest} is the newest that is known; "
                "install a newer onnx, or export an older opset"
            )
    if not proto.graph.output:
        raise ModelError(f"{source} has no outputs; export it with the outputs that are wanted")
    _require_bounded_inlining(proto, source)
    for tensor in all_tensors(proto):
        require_data(tensor, source)
    versions = [o.version for o in proto.opset_import if o.domain in _ONNX]
    for node in all_nodes(proto):
        _require_consistent(node, versions[-1] if versions else newest, source)
    size = sum(map(declared_bytes, all_tensors(proto)))
    if size > MAX_PROTO_BYTES:
        raise ModelError(
            f"{source} holds {size / 1e9:.1f} GB of weights inside its nodes, where 2 GB is the limit; "
            "make initializers of the main graph of them"
        )


def _all_strings(message: Message) -> Iterator[str | bytes]:
    """All names and other texts of a message and of those within."""
    for field, value in message.ListFields():
        values = [value] if isinstance(value, (str, bytes, Message)) else value
        if field.type == field.TYPE_STRING:
            yield from values
        elif field.type == field.TYPE_MESSAGE:
            for inner in values:
                yield from _all_strings(inner)


def _require_bounded_inlining(proto: onnx.ModelProto, source: str) -> None:
    """Refuse functions that call each other so often that the graph would have no end."""
    bodies_of = {(f.domain, f.name, f.overload): f for f in proto.functions}
    sizes: dict[tuple[str, str, str], int] = {}

    def size(body: Body, within: tuple[tuple[str, str, str], ...]) -> int:
        total = 0
        for node in body.node:
            called = (node.domain, node.op_type, node.overload)
            total += 1 + sum(size(graph, within) for graph in subgraphs_of(node))
            if called in within or called not in bodies_of:
                continue  # the checker refuses those that call themselves
            if called not in sizes:
                sizes[called] = size(bodies_of[called], (*within, called))
            total += sizes[called]
        return total

    try:
        many = size(proto.graph, ()) > _MAX_NODES
    except RecursionError:
        many = True
    if many:
        raise ModelError(
            f"{source} has functions that call each other too deep, or {_MAX_NODES} nodes without them; "
            "export it without functions"
        )


def require_data(tensor: onnx.TensorProto, source: str) -> None:
    """Refuse a tensor whose data are elsewhere, or not as many as its shape says.

    The checker asks whether there is too little, where they are raw bytes.

    Raises:
        ModelError: It is such a one.
    """
    if tensor.data_location == onnx.TensorProto.EXTERNAL:  # of a file they would have been read
        raise ModelError(
            f"{source}: the weights of {tensor.name} are in another file; give the path of the model"
        )
    try:
        if tensor.HasField("raw_data"):
            bits = ir.DataType(tensor.data_type).bitwidth * math.prod(tensor.dims)
            if len(tensor.raw_data) != (bits + 7) // 8:
                raise ValueError(f"{len(tensor.raw_data)} bytes where {(bits + 7) // 8} belong")
        else:
            numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise ModelError(
            f"{source}: tensor {tensor.name or '(nameless)'} of shape {list(tensor.dims)} is damaged: "
            f"{error}; export the model again"
        ) from None


def _omits_variadic_input(node: onnx.NodeProto, opset: int) -> bool:
    """Whether an input is left out where only as many as there are can be given."""
    if "" not in node.input or node.domain not in _ONNX:
        return False
    known = onnx.defs.has(node.op_type, opset, "")
    formal = onnx.defs.get_schema(node.op_type, opset, "").inputs if known else []
    many = bool(formal) and formal[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic
    return many and "" in node.input[len(formal) - 1 :]


def _require_consistent(node: onnx.NodeProto, opset: int, source: str) -> None:
    """Refuse what ends the process: ONNX's shape inference does on such a Split, ONNX Runtime on the others."""
    called = node.name or next(iter(node.output), "(nameless)")
    if _omits_variadic_input(node, opset):
        raise ModelError(
            f"{source}: {node.op_type} {called} leaves out one of inputs that may be any number; "
            "export the model again"
        )
    if node.op_type in _OPS_NEEDING_ZERO_POINT and (len(node.input) < 5 or not node.input[4]):
        raise ModelError(
            f"{source}: {node.op_type} {called} leaves out its output's zero point; write it, 0 too"
        )
    for attribute in node.attribute:
        divides = attribute.name in _DIVISOR_ATTRIBUTES.get(node.op_type, ())
        if divides and not 0 < attribute.i < _MAX_DIVISOR:
            raise ModelError(
                f"{source}: {node.op_type} {called} has {attribute.name} "
                f"{attribute.i}; export the model again"
            )
    if node.op_type == "Split":
        for attribute in node.attribute:
            if attribute.name == "num_outputs" and attribute.i != len(node.output):
                raise ModelError(
                    f"{source}: Split {called} says {attribute.i} outputs and has "
                    f"{len(node.output)}; export the model again"
                )
