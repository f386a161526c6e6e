"""Checks that ONNX's own checker does not make, and without which its libraries fail or crash."""

from __future__ import annotations

import math
from collections.abc import Iterator

import onnx
import onnx.defs
import onnx_ir as ir
from google.protobuf.message import Message
from onnx import numpy_helper

from ptq.core.errors import ModelError, UnsupportedError
from ptq.model.proto.external_data import MAX_PROTO_BYTES, count_declared_bytes
from ptq.model.proto.proto_walk import Body, list_nodes, list_subgraphs, list_tensors

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
    """Refuse a model that would later raise an unexpected exception or crash the process.

    Raises:
        ModelError: A name is not UTF-8, the opset is newer than the installed onnx, the graph has no outputs,
            functions expand to too many nodes, the weights inside nodes exceed 2 GB, the data of a tensor do not
            fit its shape, or a node is inconsistent.
        UnsupportedError: An input or output is a map.
    """
    for text in _list_strings(proto):
        if isinstance(text, bytes):  # protobuf returns bytes if the text is not UTF-8
            raise ModelError(f"{source} has a name that is not UTF-8: {text!r}; export it again")
    newest = onnx.defs.onnx_opset_version()
    for opset in proto.opset_import:
        if opset.domain in _ONNX and opset.version > newest:
            raise ModelError(
                f"{source} has opset {opset.version}, but the installed onnx supports at most {newest}; "
                "install a newer onnx, or export an older opset"
            )
    if not proto.graph.output:
        raise ModelError(f"{source} has no outputs; export it with its outputs")
    _refuse_maps(proto, source)
    _require_bounded_inlining(proto, source)
    for tensor in list_tensors(proto):
        require_data(tensor, source)
    versions = [o.version for o in proto.opset_import if o.domain in _ONNX]
    for node in list_nodes(proto):
        _require_consistent(node, versions[-1] if versions else newest, source)
    size = sum(map(count_declared_bytes, list_tensors(proto)))
    if size > MAX_PROTO_BYTES:
        raise ModelError(
            f"{source} has {size / 1e9:.1f} GB of weights inside its nodes; the limit is 2 GB. "
            "Export them as initializers of the main graph"
        )


def _list_strings(message: Message) -> Iterator[str | bytes]:
    for field, value in message.ListFields():
        values = [value] if isinstance(value, (str, bytes, Message)) else value
        if field.type == field.TYPE_STRING:
            yield from values
        elif field.type == field.TYPE_MESSAGE:
            for inner in values:
                yield from _list_strings(inner)


def _refuse_maps(proto: onnx.ModelProto, source: str) -> None:
    """Refuse maps, which onnx_ir cannot read; scikit-learn's exporter returns them."""
    graph = proto.graph
    for kind, values in (
        ("input", graph.input),
        ("output", graph.output),
        ("tensor", graph.value_info),
    ):
        for value in values:
            if not _has_map(value.type):
                continue
            node = next((n for n in graph.node if value.name in n.output), None)
            made = "" if node is None else f", the result of {node.op_type} ({node.name}),"
            advice = "export the model with tensors only"
            if node is not None and node.op_type == "ZipMap":
                advice = (
                    "export without ZipMap: in skl2onnx, options={id(model): {'zipmap': False}}"
                )
            raise UnsupportedError(
                f"{kind} {value.name} of {source}{made} is of type Map, which ptq does not support; {advice}"
            )


def _has_map(kind: onnx.TypeProto) -> bool:
    while kind.WhichOneof("value") in ("sequence_type", "optional_type"):
        kind = getattr(kind, str(kind.WhichOneof("value"))).elem_type
    return bool(kind.HasField("map_type"))


def _require_bounded_inlining(proto: onnx.ModelProto, source: str) -> None:
    """Refuse functions whose expansion has more than `_MAX_NODES` nodes."""
    bodies_of = {(f.domain, f.name, f.overload): f for f in proto.functions}
    sizes: dict[tuple[str, str, str], int] = {}

    def size(body: Body, within: tuple[tuple[str, str, str], ...]) -> int:
        total = 0
        for node in body.node:
            called = (node.domain, node.op_type, node.overload)
            total += 1 + sum(size(graph, within) for graph in list_subgraphs(node))
            if called in within or called not in bodies_of:
                continue  # the checker refuses recursive functions
            if called not in sizes:
                sizes[called] = size(bodies_of[called], (*within, called))
            total += sizes[called]
        return total

    try:
        too_large = size(proto.graph, ()) > _MAX_NODES
    except RecursionError:
        too_large = True
    if too_large:
        raise ModelError(
            f"{source} has functions that nest too deeply, or that expand to over {_MAX_NODES} nodes; "
            "export it without functions"
        )


def require_data(tensor: onnx.TensorProto, source: str) -> None:
    """Refuse a tensor whose data are in another file, or do not fit its shape.

    ONNX's checker only refuses too few raw bytes.

    Raises:
        ModelError: The tensor is refused.
    """
    # external data of a model file are already loaded at this point
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        raise ModelError(
            f"{source}: the weights of {tensor.name} are in another file; give the path of the model"
        )
    try:
        if tensor.HasField("raw_data"):
            bits = ir.DataType(tensor.data_type).bitwidth * math.prod(tensor.dims)
            if len(tensor.raw_data) != (bits + 7) // 8:
                raise ValueError(f"{len(tensor.raw_data)} bytes instead of {(bits + 7) // 8}")
        else:
            numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise ModelError(
            f"{source}: tensor {tensor.name or '(nameless)'} of shape {list(tensor.dims)} is damaged: "
            f"{error}; export the model again"
        ) from None


def _has_omitted_variadic_input(node: onnx.NodeProto, opset: int) -> bool:
    """Whether an input of a variadic list is omitted by an empty name, which ONNX does not allow."""
    if "" not in node.input or node.domain not in _ONNX:
        return False
    has_schema = onnx.defs.has(node.op_type, opset, "")
    formal = onnx.defs.get_schema(node.op_type, opset, "").inputs if has_schema else []
    variadic = onnx.defs.OpSchema.FormalParameterOption.Variadic
    return bool(formal) and formal[-1].option == variadic and "" in node.input[len(formal) - 1 :]


def _require_consistent(node: onnx.NodeProto, opset: int, source: str) -> None:
    """Refuse nodes that crash the process: a Split crashes ONNX's shape inference, all others ONNX Runtime."""
    name = node.name or next(iter(node.output), "(nameless)")
    if _has_omitted_variadic_input(node, opset):
        raise ModelError(
            f"{source}: {node.op_type} {name} has an empty optional input in a variadic list; "
            "export again"
        )
    if node.op_type in _OPS_NEEDING_ZERO_POINT and (len(node.input) < 5 or not node.input[4]):
        raise ModelError(
            f"{source}: {node.op_type} {name} has no output zero point; write one, even if it is 0"
        )
    for attribute in node.attribute:
        divides = attribute.name in _DIVISOR_ATTRIBUTES.get(node.op_type, ())
        if divides and not 0 < attribute.i < _MAX_DIVISOR:
            raise ModelError(
                f"{source}: {node.op_type} {name} has {attribute.name} "
                f"{attribute.i}; export the model again"
            )
    if node.op_type == "Split":
        for attribute in node.attribute:
            if attribute.name == "num_outputs" and attribute.i != len(node.output):
                raise ModelError(
                    f"{source}: Split {name} declares {attribute.i} outputs but has "
                    f"{len(node.output)}; export the model again"
                )
