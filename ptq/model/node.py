"""What can be asked of a node or a value of the graph."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

Node = ir.Node
Value = ir.Value

ONNX_DOMAINS = ("", "ai.onnx")
MICROSOFT_PREFIX = "com.microsoft::"
"""Before the names of operators of ONNX Runtime's own domain."""
QUANTIZERS = ("QuantizeLinear", "DequantizeLinear")
FLOAT_TYPES = (np.dtype(np.float32), np.dtype(np.float16), np.dtype(np.float64))


def attributes_of(node: Node) -> dict[str, Any]:
    """The node's attributes as plain Python values and numpy arrays."""
    plain: dict[str, Any] = {}
    for name, attribute in node.attributes.items():
        tensor = attribute.type == ir.AttributeType.TENSOR
        plain[name] = attribute.value.numpy() if tensor else attribute.value
    return plain


def infinite_attribute(node: Node) -> str:
    """What of the node's attributes is NaN or infinite, in words; nothing where none is."""
    for name, number in attributes_of(node).items():
        if isinstance(number, float) and not math.isfinite(number):
            return f"its {name} is {number}"
    return ""


def operator_of(node: Node) -> str:
    """The operator's name; those outside ONNX's own domain carry theirs, ``com.microsoft::QGemm``."""
    return node.op_type if node.domain in ONNX_DOMAINS else f"{node.domain}::{node.op_type}"


def spec_name(node: Node) -> str:
    """The node's row in ``ptq.core.ops``: its operator, for Resize with the mode, ``Resize linear``."""
    op = operator_of(node)
    return f"Resize {attributes_of(node).get('mode', 'nearest')}" if op == "Resize" else op


def name_of(value: Value) -> str:
    """The value's name; reading has made sure that there is one."""
    assert value.name is not None
    return value.name


def dtype_of(value: Value) -> np.dtype[Any] | None:
    """The element type where it is known and numpy has it."""
    if value.dtype is None or value.dtype in (ir.DataType.STRING, ir.DataType.UNDEFINED):
        return None
    return value.dtype.numpy()


def declare_dtype(value: Value, dtype: np.dtype[Any]) -> None:
    """Say the element type of a value that carries none."""
    if value.dtype is None:
        value.dtype = ir.DataType.from_numpy(np.dtype(dtype))


def is_tensor(value: Value) -> bool:
    """Whether the value is a tensor, and no sequence of tensors, nor one that may be missing."""
    return value.type is None or isinstance(value.type, ir.TensorType)


def shape_of(value: Value) -> tuple[int | None, ...] | None:
    """The static shape, None for each dimension that varies; None where not even the rank is known."""
    if value.shape is None:
        return None
    # Paddle writes -1 for a dimension that varies.
    return tuple(d if isinstance(d, int) and d >= 0 else None for d in value.shape)


def constant_of(value: Value | None) -> NDArray[Any] | None:
    """The array of an initializer; None for everything else."""
    if value is None or value.const_value is None or not value.is_initializer():
        return None
    array: NDArray[Any] = value.const_value.numpy()
    return array


def consumers_of(value: Value) -> list[Node]:
    """The nodes that read the value, those inside sub-graphs included, each once."""
    return list(dict.fromkeys(use.node for use in value.uses()))


def values_read_by(node: Node) -> list[Value]:
    """The values that the node reads, those that its sub-graphs capture included, each once."""
    found = dict.fromkeys(value for value in node.inputs if value is not None)
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            inner = attribute.value
            own = {*inner.inputs, *inner.initializers.values()}
            own.update(value for inside in inner for value in inside.outputs)
            captured = (v for inside in inner for v in values_read_by(inside) if v not in own)
            found.update(dict.fromkeys(captured))
    return list(found)
