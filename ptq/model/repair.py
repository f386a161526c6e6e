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
from ptq.model.proto_walk import Body, all_bodies, all_nodes, subgraphs_of

_MICROSOFT = "com.microsoft"
_LONG_DOMAIN = "ai.onnx"
_FIRST_OPSET_WITH_AXIS = 13
"""The first opset whose quantizers have an axis."""


def repair(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The same model, or a copy of it without those faults."""
    versions = [o.version for o in proto.opset_import if o.domain in ONNX_DOMAINS]
    opset = versions[-1] if versions else _FIRST_OPSET_WITH_AXIS
    early = opset < _FIRST_OPSET_WITH_AXIS and any(map(_has_axis_attribute, all_nodes(proto)))
    unordered = any(order != sorted(order) for order in map(_topological_order, all_bodies(proto)))
    undecided = any(_invalid_keepdims(node) is not None for node in all_nodes(proto))
    odd = any(o.domain == _LONG_DOMAIN for p in (proto, *proto.functions) for o in p.opset_import)
    odd = odd or len({o.domain for o in proto.opset_import}) < len(proto.opset_import)
    open_ended = any(map(_has_trailing_empty_input, all_nodes(proto)))
    if not open_ended and not early and not unordered and not undecided and not odd:
        return proto
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    if open_ended:
        for node in all_nodes(copy):
            while _has_trailing_empty_input(node):
                node.input.pop()
    if odd:
        _normalize_domain_names(copy)
    if early:
        for node in filter(_has_axis_attribute, all_nodes(copy)):
            node.domain = _MICROSOFT
        for part in (copy, *copy.functions):
            if all(o.domain != _MICROSOFT for o in part.opset_import):
                part.opset_import.append(helper.make_opsetid(_MICROSOFT, 1))
    for node in all_nodes(copy):
        if (switch := _invalid_keepdims(node)) is not None:
            switch.i = 0
    for body in all_bodies(copy):
        replacement = onnx.GraphProto()
        replacement.node.extend(body.node[i] for i in _topological_order(body))
        body.ClearField("node")
        body.node.extend(replacement.node)
    return copy


def _normalize_domain_names(proto: onnx.ModelProto) -> None:
    """Name ONNX's own operators as ONNX's library does, and import each domain once."""
    for node in all_nodes(proto):
        node.domain = "" if node.domain == _LONG_DOMAIN else node.domain
    for part in (proto, *proto.functions):
        versions = {
            "" if o.domain == _LONG_DOMAIN else o.domain: o.version for o in part.opset_import
        }
        part.ClearField("opset_import")
        part.opset_import.extend(itertools.starmap(helper.make_opsetid, versions.items()))


def _has_trailing_empty_input(node: onnx.NodeProto) -> bool:
    """Whether the last input has no name; a Loop must have two, also of no name."""
    return bool(node.input) and not node.input[-1] and node.op_type != "Loop"


def _has_axis_attribute(node: onnx.NodeProto) -> bool:
    return (
        node.op_type in QUANTIZERS
        and node.domain in ONNX_DOMAINS
        and any(attribute.name == "axis" for attribute in node.attribute)
    )


def _invalid_keepdims(node: onnx.NodeProto) -> onnx.AttributeProto | None:
    """The `keepdims` of an operator of ONNX's that is neither 0 nor 1."""
    if node.domain not in ONNX_DOMAINS:
        return None
    return next((a for a in node.attribute if a.name == "keepdims" and a.i not in (0, 1)), None)


def _topological_order(body: Body) -> list[int]:
    """Positions of the nodes, each behind those that it reads, else as they stand; a cycle's at the end."""
    writers = {name: i for i, node in enumerate(body.node) for name in node.output if name}
    missing: list[set[int]] = []
    readers: dict[int, list[int]] = {}
    for i, node in enumerate(body.node):
        needed = {writers[name] for name in _names_read_by(node) if name in writers}
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


def _names_read_by(node: onnx.NodeProto) -> Iterator[str]:
    """Names that a node reads, those that the graphs inside it take from around them included."""
    yield from node.input
    for inner in subgraphs_of(node):
        own = {name for each in inner.node for name in each.output}
        own |= {value.name for value in inner.input} | {t.name for t in inner.initializer}
        for name in (n for each in inner.node for n in _names_read_by(each)):
            if name not in own:
                yield name
        yield from (output.name for output in inner.output if output.name not in own)
