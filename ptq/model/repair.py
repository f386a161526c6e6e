"""Which faults of models that other tools write have one clear meaning, so that they are mended on reading?

Nodes out of order: whatever reads a tensor belongs behind what writes it. A quantizer with an axis before opset 13,
which gave it one: Microsoft's quantizer means just that in every opset, and ONNX Runtime reads it. A `keepdims` of
neither 0 nor 1: to ONNX Runtime's kernels it is 0, and its optimizer takes it for 1. Inputs left out by an empty
name behind all others: they are simply not there, and ONNX Runtime 1.31.1 ends the process where it fuses quantizers
around a LayerNormalization with such a one. ONNX's operators by their long name, `ai.onnx`, which its shape inference
does not know; operators of several versions, of which ONNX Runtime takes the last.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator

import onnx
from onnx import helper

from ptq.model.node import ONNX_DOMAINS, QUANTIZERS
from ptq.model.proto_walk import Body, bodies, graphs_of, nodes

_MICROSOFT = "com.microsoft"
_ALIAS = "ai.onnx"
_AXIS = 13
"""The first opset whose quantizers have an axis."""


def mended(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The same model, or a copy of it without those faults."""
    versions = [o.version for o in proto.opset_import if o.domain in ONNX_DOMAINS]
    opset = versions[-1] if versions else _AXIS
    early = opset < _AXIS and any(map(_along_axis, nodes(proto)))
    unordered = any(order != sorted(order) for order in map(_order, bodies(proto)))
    undecided = any(_switch(node) is not None for node in nodes(proto))
    odd = any(o.domain == _ALIAS for p in (proto, *proto.functions) for o in p.opset_import)
    odd = odd or len({o.domain for o in proto.opset_import}) < len(proto.opset_import)
    open_ended = any(map(_open_ended, nodes(proto)))
    if not open_ended and not early and not unordered and not undecided and not odd:
        return proto
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    if open_ended:
        for node in nodes(copy):
            while _open_ended(node):
                node.input.pop()
    if odd:
        _call_by_one_name(copy)
    if early:
        for node in filter(_along_axis, nodes(copy)):
            node.domain = _MICROSOFT
        for part in (copy, *copy.functions):
            if all(o.domain != _MICROSOFT for o in part.opset_import):
                part.opset_import.append(helper.make_opsetid(_MICROSOFT, 1))
    for node in nodes(copy):
        if (switch := _switch(node)) is not None:
            switch.i = 0
    for body in bodies(copy):
        replacement = onnx.GraphProto()
        replacement.node.extend(body.node[i] for i in _order(body))
        body.ClearField("node")
        body.node.extend(replacement.node)
    return copy


def _call_by_one_name(proto: onnx.ModelProto) -> None:
    """Name ONNX's own operators as ONNX's library does, and import each domain once."""
    for node in nodes(proto):
        node.domain = "" if node.domain == _ALIAS else node.domain
    for part in (proto, *proto.functions):
        versions = {"" if o.domain == _ALIAS else o.domain: o.version for o in part.opset_import}
        part.ClearField("opset_import")
        part.opset_import.extend(itertools.starmap(helper.make_opsetid, versions.items()))


def _open_ended(node: onnx.NodeProto) -> bool:
    """Whether the last input has no name; a Loop must have two, also of no name."""
    return bool(node.input) and not node.input[-1] and node.op_type != "Loop"


def _along_axis(node: onnx.NodeProto) -> bool:
    return (
        node.op_type in QUANTIZERS
        and node.domain in ONNX_DOMAINS
        and any(attribute.name == "axis" for attribute in node.attribute)
    )


def _switch(node: onnx.NodeProto) -> onnx.AttributeProto | None:
    """The `keepdims` of an operator of ONNX's that is neither 0 nor 1."""
    if node.domain not in ONNX_DOMAINS:
        return None
    return next((a for a in node.attribute if a.name == "keepdims" and a.i not in (0, 1)), None)


def _order(body: Body) -> list[int]:
    """Positions of the nodes, each behind those that it reads, else as they stand; a cycle's at the end."""
    writers = {name: i for i, node in enumerate(body.node) for name in node.output if name}
    missing: list[set[int]] = []
    readers: dict[int, list[int]] = {}
    for i, node in enumerate(body.node):
        needed = {writers[name] for name in _read(node) if name in writers}
        missing.append(needed)
        for writer in needed:
            readers.setdefault(writer, []).append(i)
    ready = [i for i, needed in enumerate(missing) if not needed]
    order = []
    while ready:
        order.append(first := heapq.heappop(ready))
        for reader in readers.get(first, ()):
            missing[reader].discard(first)
            if not missing[reader]:
                heapq.heappush(ready, reader)
    return [*order, *sorted(set(range(len(missing))) - set(order))]


def _read(node: onnx.NodeProto) -> Iterator[str]:
    """Names that a node reads, those that the graphs inside it take from around them included."""
    yield from node.input
    for inner in graphs_of(node):
        own = {name for each in inner.node for name in each.output}
        own |= {value.name for value in inner.input} | {t.name for t in inner.initializer}
        for name in (n for each in inner.node for n in _read(each)):
            if name not in own:
                yield name
        yield from (output.name for output in inner.output if output.name not in own)
