"""Upgrades of the opset: old models get per-channel Q/DQ pairs, and fused patterns get their operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from functools import partial

import numpy as np
import onnx

from ptq.core.errors import ModelError
from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    get_attributes,
    get_constant,
    get_dtype,
    get_name,
    get_operator,
    get_shape,
)
from ptq.rewrite.change import Change
from ptq.rewrite.edit import replace_node, set_attributes

MIN_QDQ_OPSET = 13
"""QuantizeLinear and DequantizeLinear have an axis from this opset on."""
MIN_QUANTIZER_OPSET = 10
"""QuantizeLinear and DequantizeLinear exist from this opset on."""
TARGET_OPSET = 17
"""LayerNormalization is one node from this opset on, and every runtime of the last years reads it."""
TARGET_IR_VERSION = 8
"""The file format that came with opset 17."""
SOFTMAX_OPS = ("Softmax", "LogSoftmax", "Hardmax")
_LAST_OLD_RESIZE = 10
"""Before opset 11 a Resize has no coordinate_transformation_mode."""
_CHANGED_IN_11 = ("Pad", "Resize", "Upsample")
"""Operators of opset 10 whose attributes are inputs in opset 11, or that round otherwise there."""
EXEMPT_DOMAIN = "ptq.aside"
"""ONNX's converter leaves operators of other domains unchanged."""


def upgrade_opset(
    graph: Graph,
    *,
    keep_opset: bool = False,
    per_tensor: bool = False,
    version: int = TARGET_OPSET,
) -> list[Change]:
    """Convert a model older than opset 13 to that version, in place; with ``keep_opset`` refuse it.

    With ``per_tensor`` too, a model of opset 10 or newer stays as it is.

    Softmax, LogSoftmax and Hardmax changed their meaning in opset 13, except along the last axis.
    Along the last axis they are exempt from the conversion, which would decompose them.

    Raises:
        ModelError: ONNX's converter has no rule for one of the operators, or a wrong one; or the opset shall be
            kept.
    """
    if graph.opset >= MIN_QDQ_OPSET:
        return []
    if keep_opset:
        reason = _explain_upgrade(graph, per_tensor=per_tensor)
        if reason:
            raise ModelError(
                f"opset {graph.opset} cannot be kept: {reason}; export opset {MIN_QDQ_OPSET} or newer, or let the "
                "opset be raised"
            )
        return []
    batched = [
        n for n in graph.model.graph.all_nodes() if graph.opset < 9 and get_operator(n) == "Scan"
    ]
    if batched:
        raise ModelError(
            f"Scan {batched[0].name} of opset {graph.opset} has a batch axis, which opset 9 removed; "
            "export opset 9 or newer"
        )
    exempt = {str(node.name) for node in graph.with_shapes().nodes if _is_unchanged_softmax(node)}
    # The converter decomposes Softmax and LogSoftmax, but leaves Hardmax, with its new meaning.
    hardmax_axes = {
        node.name: get_attributes(node).get("axis", 1)
        for node in graph.nodes
        if get_operator(node) == "Hardmax" and node.name not in exempt
    }
    resizes = dict(_find_old_resizes(graph))
    prepare = partial(_exempt_nodes, names=exempt)
    try:
        upgraded = graph.with_opset(version, prepare)
    except ModelError:
        upgraded = graph.with_opset(MIN_QDQ_OPSET, prepare)
    for node in upgraded.nodes:
        if node.domain == EXEMPT_DOMAIN:
            node.domain = ""
            set_attributes(node, axis=-1)
        elif get_operator(node) == "Hardmax" and node.name in hardmax_axes:
            _flatten_hardmax(upgraded, node, hardmax_axes[node.name])
    for node in upgraded.model.graph.all_nodes():
        if get_operator(node) == "Resize" and get_name(node.outputs[0]) in resizes:
            set_attributes(node, **resizes[get_name(node.outputs[0])])
    upgraded.remove_unused()
    change = Change("upgrade_opset", old=str(graph.opset), new=str(upgraded.opset))
    graph.replace_model(upgraded)
    return [change]


def _explain_upgrade(graph: Graph, *, per_tensor: bool) -> str:
    """Why a model older than opset 13 cannot keep its opset; empty if it can."""
    if graph.opset < MIN_QUANTIZER_OPSET:
        return f"QuantizeLinear needs opset {MIN_QUANTIZER_OPSET}"
    if not per_tensor:
        return (
            f"quantizers with a scale for each channel need opset {MIN_QDQ_OPSET} "
            f"(quantize keeps opset {MIN_QUANTIZER_OPSET} to {MIN_QDQ_OPSET - 1} with `per_tensor`)"
        )
    for node in graph.with_shapes().nodes:
        is_old_form = graph.opset <= _LAST_OLD_RESIZE and get_operator(node) in _CHANGED_IN_11
        is_old_softmax = get_operator(node) in SOFTMAX_OPS and not _is_unchanged_softmax(node)
        if is_old_form or is_old_softmax:
            return f"{get_operator(node)} {node.name} is another operator there than in opset {MIN_QDQ_OPSET}"
    return ""


def try_upgrade_opset(graph: Graph, version: int, *, keep: bool) -> list[Change]:
    """Convert a graph to at least this opset, in place, if ONNX's converter can; see `graph.opset` after.

    With ``keep`` the opset stays as it is.
    """
    if version <= graph.opset or keep:
        return []
    try:
        upgraded = graph.with_opset(version).with_shapes()
    except ModelError:
        return []
    change = Change("upgrade_opset_for_fusion", old=str(graph.opset), new=str(version))
    graph.replace_model(upgraded)
    return [change]


def explain_old_opset(graph: Graph, version: int, *, keep: bool) -> str:
    """The reason why operators of a later opset are not used in a graph."""
    if keep:
        return f"opset {graph.opset} is kept, and the operator needs opset {version}"
    return f"ONNX's converter cannot raise the opset from {graph.opset} to {version}"


def _is_unchanged_softmax(node: Node) -> bool:
    """Whether the node is a Softmax over the last axis, for which old and new meaning coincide."""
    if get_operator(node) not in SOFTMAX_OPS or node.inputs[0] is None:
        return False
    shape = get_shape(node.inputs[0])
    return shape is not None and get_attributes(node).get("axis", 1) in (-1, len(shape) - 1)


def _find_old_resizes(graph: Graph) -> Iterator[tuple[str, Mapping[str, str]]]:
    """By the name of its output, the attributes that opset 11 needs of each Upsample and each Resize of opset 10.

    These map position p to p / factor. ONNX's converter leaves that out. ONNX Runtime takes the pixel before that
    position, or if the image shrinks the one behind it; computed factors count as larger than 1.

    Raises:
        ModelError: Some factors of a nearest one shrink the image, and others do not.
    """
    if graph.opset > _LAST_OLD_RESIZE:
        return
    for node in graph.model.graph.all_nodes():
        if get_operator(node) not in ("Resize", "Upsample"):
            continue
        attributes = get_attributes(node)
        added = {"coordinate_transformation_mode": "asymmetric"}
        if attributes.get("mode", "nearest") == "nearest":
            known = attributes.get("scales")
            scales = get_constant(node.inputs[1]) if known is None else np.asarray(known)
            smallest, largest = (1.0, 1.0) if scales is None else (scales.min(), scales.max())
            if smallest < 1 < largest:
                raise ModelError(
                    f"{get_operator(node)} {node.name} of opset {graph.opset} shrinks one axis and extends another, "
                    "which no newer opset rounds alike; export opset 11 or newer"
                )
            added["nearest_mode"] = "ceil" if smallest < 1 else "floor"
        yield get_name(node.outputs[0]), added


def _flatten_hardmax(graph: Graph, node: Node, axis: int) -> None:
    """Replace a Hardmax over all axes from ``axis`` on by one over the last axis of a matrix."""
    x, y = node.inputs[0], node.outputs[0]
    name, dtype = get_name(y), get_dtype(y)
    assert x is not None
    shape = graph.insert(
        "Shape", [x], before=node, output=f"{name}_shape", dtype=np.dtype(np.int64)
    )
    matrix = graph.insert(
        "Flatten", [x], before=node, attrs={"axis": axis}, output=f"{name}_matrix", dtype=dtype
    )
    rows = graph.insert(
        "Hardmax", [matrix], before=node, attrs={"axis": -1}, output=f"{name}_rows", dtype=dtype
    )
    replace_node(
        graph,
        node,
        graph.insert("Reshape", [rows, shape], before=node, output=f"{name}_whole", dtype=dtype),
    )


def _exempt_nodes(proto: onnx.ModelProto, names: Set[str]) -> onnx.ModelProto:
    """Put nodes into a domain that the converter leaves unchanged, and raise the version of the file format."""
    proto.ir_version = max(proto.ir_version, TARGET_IR_VERSION)
    chosen = [node for node in proto.graph.node if node.name in names]
    for node in chosen:
        node.domain = EXEMPT_DOMAIN
    if chosen:
        proto.opset_import.append(onnx.helper.make_opsetid(EXEMPT_DOMAIN, 1))
    return proto
