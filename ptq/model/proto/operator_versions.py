"""Lowering of models that are newer than ONNX Runtime, as far as their operators allow it.

ONNX defines some operators by a function of older ones. An operator that ONNX Runtime does not know is replaced by
its function. An opset that ONNX Runtime does not know is lowered, if no operator of the model has changed since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import onnx
import onnx.defs
import onnx.inliner
import onnx.shape_inference

from ptq.model.machine.ort_version import find_entry
from ptq.model.node import ONNX_DOMAINS
from ptq.model.proto.proto_walk import list_nodes

_READS = {(1, 20): (21, 10), (1, 21): (22, 10), (1, 24): (25, 13), (1, 25): (26, 13)}
"""Newest opset and format that ONNX Runtime reads and has kernels of quantizers for, since which version.

ONNX Runtime 1.23 reads opset 23, and 1.32 reads opset 28, both without a kernel of QuantizeLinear.
"""
NEWEST_OPSET, NEWEST_IR_VERSION = find_entry(_READS)
"""The newest version of ONNX's operators, and of its format, to which a newer model is lowered."""

PREVIEW_DOMAIN = "ai.onnx.preview"
UNSUPPORTED_ATTRIBUTES = {"Attention": frozenset(["left_window_size", "right_window_size"])}
"""Attributes that ONNX Runtime's version of an operator does not support."""
UNSUPPORTED_OPERATORS = frozenset(["Swish"])
"""Operators that ONNX Runtime does not support in any version."""


def lower_to_supported(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The same model, as far as possible in operators that ONNX Runtime knows; the given one if nothing changes."""
    whole, unknown = proto, Counter[str]()
    while defined := _list_inlinable_operators(whole):
        whole = _copy(whole)
        whole = write_default_attributes(whole, find_unsupported_nodes(whole))
        try:
            whole = onnx.inliner.inline_selected_functions(
                whole, defined, inline_schema_functions=True
            )
        except (RuntimeError, onnx.shape_inference.InferenceError):
            # inlining needs types and shapes that are unknown, so the operator stays
            break
        before, unknown = unknown, Counter(node.op_type for node in find_unsupported_nodes(whole))
        if unknown == before:  # ONNX has no function for these attributes
            break
    if _get_opset_version(whole) > NEWEST_OPSET and not find_unsupported_nodes(whole):
        whole = _copy(whole)
        for opset in whole.opset_import:
            if opset.domain in ONNX_DOMAINS:
                opset.version = NEWEST_OPSET
    return whole


def find_unsupported_nodes(proto: onnx.ModelProto) -> list[onnx.NodeProto]:
    """Nodes whose operator ONNX Runtime does not know in the version that the model declares."""
    version = _get_opset_version(proto)
    return [node for node in list_nodes(proto) if _is_unsupported(node, version)]


def get_since_version(node: onnx.NodeProto, version: int) -> int:
    """Opset in which the operator was last changed; 0 if ONNX does not have the operator."""
    if not onnx.defs.has(node.op_type, version, node.domain):
        return 0
    return int(onnx.defs.get_schema(node.op_type, version, node.domain).since_version)


def _list_inlinable_operators(proto: onnx.ModelProto) -> list[tuple[str, str]]:
    """Domain and name of each unsupported operator that ONNX defines by a function."""
    unknown = {(node.domain, node.op_type) for node in find_unsupported_nodes(proto)}
    return sorted(
        key for key in unknown if _has_function_body(*key, _get_opset_version(proto, key[0]))
    )


def write_default_attributes(
    proto: onnx.ModelProto, nodes: Iterable[onnx.NodeProto]
) -> onnx.ModelProto:
    """Write the default values of omitted attributes, in place. The inliner would lose them."""
    for node in nodes:
        schema = onnx.defs.get_schema(
            node.op_type, _get_opset_version(proto, node.domain), node.domain
        )
        given = {attribute.name for attribute in node.attribute}
        for name, attribute in schema.attributes.items():
            if name not in given and attribute.default_value.type:
                node.attribute.append(attribute.default_value)
    return proto


def _is_unsupported(node: onnx.NodeProto, version: int) -> bool:
    if node.domain == PREVIEW_DOMAIN:
        return True
    if node.domain not in ONNX_DOMAINS:
        return False
    if node.op_type in UNSUPPORTED_OPERATORS or (
        version > NEWEST_OPSET and get_since_version(node, version) > NEWEST_OPSET
    ):
        return True
    new = UNSUPPORTED_ATTRIBUTES.get(node.op_type)
    return new is not None and any(a.name in new for a in node.attribute)


def _has_function_body(domain: str, op: str, version: int) -> bool:
    if not onnx.defs.has(op, version, domain):
        return False
    schema = onnx.defs.get_schema(op, version, domain)
    has_body: bool = schema.has_function or schema.has_context_dependent_function  # type: ignore[attr-defined] # the stub lacks both
    return has_body


def _get_opset_version(proto: onnx.ModelProto, domain: str = "") -> int:
    names = ONNX_DOMAINS if domain in ONNX_DOMAINS else (domain,)
    return next((o.version for o in proto.opset_import if o.domain in names), 1)


def _copy(proto: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    return copy
