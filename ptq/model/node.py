"""Queries of one node or value: attributes, operator, type, shape, constant, readers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from ptq.core.ops import OPS
from ptq.core.opset_changes import ATTRIBUTES_NOW_INPUTS
from ptq.core.opspec import MICROSOFT_PREFIX, OpSpec
from ptq.core.types import FLOAT16, FLOAT32

Node = ir.Node
Value = ir.Value

ONNX_DOMAINS = ("", "ai.onnx")
QUANTIZERS = ("QuantizeLinear", "DequantizeLinear")
QUANTIZE_OPS = frozenset(["QuantizeLinear", MICROSOFT_PREFIX + "QuantizeLinear"])
"""ONNX's quantizer and that of ONNX Runtime's own domain."""
DEQUANTIZE_OPS = frozenset(["DequantizeLinear", MICROSOFT_PREFIX + "DequantizeLinear"])
"""ONNX's dequantizer and that of ONNX Runtime's own domain."""
ARITHMETIC_OPS = frozenset(["Add", "Div", "Mul", "Sub"])
RESHAPE_OPS = ("Flatten", "Reshape", "Squeeze", "Unsqueeze")
"""Operators whose output has the input's values in the same order, in another shape."""
FLOAT_TYPES = (FLOAT32, FLOAT16, np.dtype(np.float64))


def get_attributes(node: Node) -> dict[str, Any]:
    """Attributes of the node as plain Python values and numpy arrays."""
    plain: dict[str, Any] = {}
    for name, attribute in node.attributes.items():
        tensor = attribute.type == ir.AttributeType.TENSOR
        plain[name] = attribute.value.numpy() if tensor else attribute.value
    return plain


def find_clip_bounds(clip: Node) -> tuple[float, float] | None:
    """The bounds of a Clip, which are attributes before opset 11; infinite where absent, None if one is computed."""
    attrs, bounds = get_attributes(clip), [-math.inf, math.inf]
    for position, name in ATTRIBUTES_NOW_INPUTS["Clip"].items():
        value = clip.inputs[position] if position < len(clip.inputs) else None
        given = (
            np.asarray(attrs.get(name, bounds[position - 1]))
            if value is None
            else get_constant(value)
        )
        if given is None or given.size != 1:
            return None
        bounds[position - 1] = float(given.item())
    return bounds[0], bounds[1]


def find_infinite_attribute(node: Node) -> str:
    """Text that names an attribute which is NaN or infinite; empty if there is none."""
    for name, number in get_attributes(node).items():
        if isinstance(number, float) and not math.isfinite(number):
            return f"its {name} is {number}"
    return ""


def get_operator(node: Node) -> str:
    """Name of the operator, with its domain if that is not ONNX's own: ``com.microsoft::QGemm``."""
    return node.op_type if node.domain in ONNX_DOMAINS else f"{node.domain}::{node.op_type}"


def get_onnx_operator(node: Node) -> str:
    """Name of the operator; an operator of ONNX Runtime's own domain has the name of ONNX's."""
    return get_operator(node).removeprefix(MICROSOFT_PREFIX)


def get_spec_name(node: Node) -> str:
    """Key of the node in ``ptq.core.ops``: its operator; for a Resize with the mode, ``Resize linear``."""
    op = get_operator(node)
    return f"Resize {get_attributes(node).get('mode', 'nearest')}" if op == "Resize" else op


def get_spec(node: Node) -> OpSpec | None:
    """Row of the node in ``ptq.core.ops``; None for an operator without one."""
    return OPS.get(get_spec_name(node))


def get_name(value: Value) -> str:
    """Name of the value. Every value of a loaded model has one."""
    assert value.name is not None
    return value.name


def get_node_name(node: Node) -> str:
    """Name of the node. Every node of a loaded model has one."""
    return node.name or ""


def get_input_name(node: Node) -> str:
    """The name of the first input of a layer."""
    assert node.inputs[0] is not None
    return get_name(node.inputs[0])


def get_dtype(value: Value) -> np.dtype[Any] | None:
    """Element type; None if it is unknown or numpy does not have it."""
    if value.dtype is None or value.dtype in (ir.DataType.STRING, ir.DataType.UNDEFINED):
        return None
    return value.dtype.numpy()


def is_float32(value: Value) -> bool:
    """Whether the elements are known to be float32."""
    return value.dtype is ir.DataType.FLOAT


def declare_dtype(value: Value, dtype: np.dtype[Any]) -> None:
    """Set the element type of a value that has none."""
    if value.dtype is None:
        value.dtype = ir.DataType.from_numpy(np.dtype(dtype))


def is_tensor(value: Value) -> bool:
    """Whether the value is a tensor, not a sequence of tensors and not an optional."""
    return value.type is None or isinstance(value.type, ir.TensorType)


def get_shape(value: Value) -> tuple[int | None, ...] | None:
    """Static shape, with None for each dynamic dimension; None if the rank is unknown."""
    if value.shape is None:
        return None
    # Paddle writes -1 for a dynamic dimension.
    return tuple(d if isinstance(d, int) and d >= 0 else None for d in value.shape)


def get_axis_names(value: Value) -> tuple[str | None, ...]:
    """Names of the dynamic dimensions, with None for each other one; empty if the rank is unknown."""
    return tuple(getattr(d, "value", None) for d in value.shape or ())


def get_constant_shape(value: Value | None) -> tuple[int, ...] | None:
    """Shape of an initializer, whose data are not read; None for any other value."""
    if value is None or value.const_value is None or not value.is_initializer():
        return None
    return tuple(value.const_value.shape.numpy())


def is_constant(value: Value | None) -> bool:
    """Whether a value is an initializer; its data are not read."""
    return value is not None and value.const_value is not None and value.is_initializer()


def get_constant(value: Value | None) -> NDArray[Any] | None:
    """Array of an initializer; None for any other value."""
    if value is None or value.const_value is None or not value.is_initializer():
        return None
    array: NDArray[Any] = value.const_value.numpy()
    return array


def require_constant(value: Value | None) -> NDArray[Any]:
    """Array of a value that the caller knows to be an initializer."""
    array = get_constant(value)
    assert array is not None
    return array


def list_named_values(graph: ir.Graph) -> Iterator[Value]:
    """All named values of a graph and of the sub-graphs inside its nodes."""
    yield from graph.inputs
    for node in graph.all_nodes():
        yield from (v for v in node.outputs if v.name)
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                yield from (v for v in attribute.value.inputs if v.name)
                yield from attribute.value.initializers.values()
    yield from graph.initializers.values()


def list_consumers(value: Value) -> list[Node]:
    """Nodes that read the value, each once. Nodes inside sub-graphs are included."""
    return list(dict.fromkeys(use.node for use in value.uses()))


def list_readers(node: Node) -> list[Node]:
    """Nodes that read the outputs, in order of the outputs; those inside sub-graphs are included."""
    return [reader for value in node.outputs for reader in list_consumers(value)]


def list_producers(node: Node) -> list[Node]:
    """Nodes that compute the inputs, in order of the inputs."""
    makers = (value.producer() for value in node.inputs if value is not None)
    return [maker for maker in makers if maker is not None]


def list_values_read(node: Node) -> list[Value]:
    """Values that the node reads, each once. Values that its sub-graphs capture are included."""
    found = dict.fromkeys(value for value in node.inputs if value is not None)
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            inner = attribute.value
            own = {*inner.inputs, *inner.initializers.values()}
            own.update(value for inside in inner for value in inside.outputs)
            captured = (v for inside in inner for v in list_values_read(inside) if v not in own)
            found.update(dict.fromkeys(captured))
    return list(found)
