"""Repair of exporter faults that have one clear meaning, done when a model is read.

1. Nodes out of order: the nodes are sorted topologically.
2. A quantizer with an axis before opset 13, which introduced the axis: it becomes Microsoft's quantizer, which has an
   axis in every opset and which ONNX Runtime reads.
3. A `keepdims` other than 0 and 1: it becomes 0. ONNX Runtime's kernels read it as 0, but its optimizer as 1.
4. Trailing inputs with an empty name: they are removed. ONNX Runtime 1.31.1 crashes when it fuses quantizers around
   a LayerNormalization with an empty trailing input.
5. The long name `ai.onnx` of ONNX's own domain, which its shape inference does not know: it becomes the empty name.
6. Several versions of one domain: the last one stays, which is the one that ONNX Runtime uses.
7. An input that is also an output, where only the input has a shape: the output takes it. Otherwise the output's
   entry would hide the input's.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator

import onnx
from onnx import helper

from ptq.model.node import ONNX_DOMAINS, QUANTIZERS
from ptq.model.proto.proto_walk import Body, list_bodies, list_nodes, list_subgraphs

_MICROSOFT = "com.microsoft"
_LONG_DOMAIN = "ai.onnx"
_FIRST_OPSET_WITH_AXIS = 13
"""The first opset in which quantizers have an axis."""


def repair(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The same model if it has none of these faults, else a repaired copy."""
    versions = [o.version for o in proto.opset_import if o.domain in ONNX_DOMAINS]
    opset = versions[-1] if versions else _FIRST_OPSET_WITH_AXIS
    early = opset < _FIRST_OPSET_WITH_AXIS and any(map(_has_axis_attribute, list_nodes(proto)))
    unordered = any(
        order != sorted(order) for order in map(_sort_topologically, list_bodies(proto))
    )
    undecided = any(_find_invalid_keepdims(node) is not None for node in list_nodes(proto))
    odd = any(o.domain == _LONG_DOMAIN for p in (proto, *proto.functions) for o in p.opset_import)
    odd = odd or len({o.domain for o in proto.opset_import}) < len(proto.opset_import)
    open_ended = any(map(_has_trailing_empty_input, list_nodes(proto)))
    bare = bool(_list_bare_outputs(proto))
    if not any((open_ended, early, unordered, undecided, odd, bare)):
        return proto
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    if open_ended:
        for node in list_nodes(copy):
            while _has_trailing_empty_input(node):
                node.input.pop()
    for output, given in _list_bare_outputs(copy):
        output.type.CopyFrom(given.type)
    if odd:
        _normalize_domain_names(copy)
    if early:
        for node in filter(_has_axis_attribute, list_nodes(copy)):
            node.domain = _MICROSOFT
        for owner in (copy, *copy.functions):
            if all(o.domain != _MICROSOFT for o in owner.opset_import):
                owner.opset_import.append(helper.make_opsetid(_MICROSOFT, 1))
    for node in list_nodes(copy):
        if (switch := _find_invalid_keepdims(node)) is not None:
            switch.i = 0
    for body in list_bodies(copy):
        replacement = onnx.GraphProto()
        replacement.node.extend(body.node[i] for i in _sort_topologically(body))
        body.ClearField("node")
        body.node.extend(replacement.node)
    return copy


def _normalize_domain_names(proto: onnx.ModelProto) -> None:
    """Replace `ai.onnx` by the empty domain name, and import each domain once, in place."""
    for node in list_nodes(proto):
        node.domain = "" if node.domain == _LONG_DOMAIN else node.domain
    for owner in (proto, *proto.functions):
        versions = {
            "" if o.domain == _LONG_DOMAIN else o.domain: o.version for o in owner.opset_import
        }
        owner.ClearField("opset_import")
        owner.opset_import.extend(itertools.starmap(helper.make_opsetid, versions.items()))


def _list_bare_outputs(
    proto: onnx.ModelProto,
) -> list[tuple[onnx.ValueInfoProto, onnx.ValueInfoProto]]:
    """Outputs without a shape, each with the input of that name, which has one."""
    inputs = {v.name: v for v in proto.graph.input if v.type.tensor_type.HasField("shape")}
    return [
        (output, inputs[output.name])
        for output in proto.graph.output
        if output.name in inputs and not output.type.tensor_type.HasField("shape")
    ]


def _has_trailing_empty_input(node: onnx.NodeProto) -> bool:
    """Whether the last input has an empty name. A Loop is exempt: its first two inputs must stay, even if empty."""
    return bool(node.input) and not node.input[-1] and node.op_type != "Loop"


def _has_axis_attribute(node: onnx.NodeProto) -> bool:
    return (
        node.op_type in QUANTIZERS
        and node.domain in ONNX_DOMAINS
        and any(attribute.name == "axis" for attribute in node.attribute)
    )


def _find_invalid_keepdims(node: onnx.NodeProto) -> onnx.AttributeProto | None:
    if node.domain not in ONNX_DOMAINS:
        return None
    return next((a for a in node.attribute if a.name == "keepdims" and a.i not in (0, 1)), None)


def _sort_topologically(body: Body) -> list[int]:
    """Positions of the nodes in a stable topological order; nodes of a cycle come last."""
    writers = {name: i for i, node in enumerate(body.node) for name in node.output if name}
    missing: list[set[int]] = []
    readers: dict[int, list[int]] = {}
    for i, node in enumerate(body.node):
        needed = {writers[name] for name in _list_names_read(node) if name in writers}
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


def _list_names_read(node: onnx.NodeProto) -> Iterator[str]:
    """Names that a node reads, including those that its inner graphs capture from outside."""
    yield from node.input
    for inner in list_subgraphs(node):
        own = {name for each in inner.node for name in each.output}
        own |= {value.name for value in inner.input} | {t.name for t in inner.initializer}
        for name in (n for each in inner.node for n in _list_names_read(each)):
            if name not in own:
                yield name
        yield from (output.name for output in inner.output if output.name not in own)
