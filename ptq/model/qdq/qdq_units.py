"""Operators of a QDQ graph that compute on integers: DequantizeLinear → operator → QuantizeLinear."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import ModelError
from ptq.core.opset_changes import ATTRIBUTES_NOW_INPUTS, SCALAR_INPUTS
from ptq.core.opspec import OpSpec, OutputRule, Role
from ptq.core.types import QType, QuantParams
from ptq.model.axes import get_softmax_axes, resize_unsupported_reason
from ptq.model.node import (
    Node,
    Value,
    find_infinite_attribute,
    get_attributes,
    get_constant,
    get_dtype,
    get_operator,
    get_shape,
    get_spec,
    is_constant,
    list_consumers,
)
from ptq.model.weights.layer_weights import get_channel_axis


@dataclass(frozen=True, eq=False)
class QuantizedTensor:
    """Integers with their scale and zero point.

    Attributes:
        integers: The tensor of integers.
        scale: Initializer of the scale.
        zero_point: Initializer of the zero point; None if the quantizer has none.
        params: Scale and zero point as arrays.
    """

    integers: Value
    scale: Value
    zero_point: Value | None
    params: QuantParams


@dataclass(frozen=True, eq=False)
class QuantizedOp:
    """One operator on integers.

    Attributes:
        node: The float operator between the quantizers.
        spec: Its row of the operator table.
        inputs: By position: a Value for an input that is not quantized (indices, shapes, bounds), None for an
            absent one.
        outputs: By position; None for an output that is not quantized or not read.
    """

    node: Node
    spec: OpSpec
    inputs: tuple[QuantizedTensor | Value | None, ...]
    outputs: tuple[QuantizedTensor | None, ...]

    @property
    def has_float_output(self) -> bool:
        """Whether it computes on integers and returns float."""
        return self.spec.output_rule is not OutputRule.NONE and self.outputs[0] is None


def find_quantized_source(value: Value | None) -> QuantizedTensor | None:
    """The integers that a DequantizeLinear with constant scale turns into this value; None if there is none."""
    node = value.producer() if value is not None else None
    if node is None or get_operator(node) != "DequantizeLinear":
        return None
    return read_quantizer(node, node.inputs[0])


def find_quantized_result(value: Value) -> QuantizedTensor | None:
    """The integers of the value, if one QuantizeLinear is its only reader; else None."""
    readers = list_consumers(value)
    if len(readers) != 1 or get_operator(readers[0]) != "QuantizeLinear" or value.is_graph_output():
        return None
    return read_quantizer(readers[0], readers[0].outputs[0])


def read_quantizer(node: Node, integers: Value | None) -> QuantizedTensor | None:
    """Scale and zero point of a quantizer for its integers; None unless they are constant."""
    scale, zero_point = node.inputs[1], node.inputs[2] if len(node.inputs) > 2 else None
    scales, zeros = get_constant(scale), get_constant(zero_point)
    if (
        integers is None
        or scale is None
        or scales is None
        or (zero_point is not None and zeros is None)
    ):
        return None
    if scales.dtype != np.float32:
        return None
    dtype = zeros.dtype if zeros is not None else infer_implied_type(node)
    if dtype is None:
        return None
    params = to_quant_params(scales, zeros, dtype, get_attributes(node).get("axis", 1), integers)
    return None if params is None else QuantizedTensor(integers, scale, zero_point, params)


def infer_implied_type(node: Node) -> np.dtype[Any] | None:
    """Integer type of a quantizer without a zero point; None if it is unknown."""
    if get_operator(node) == "DequantizeLinear":
        integers = node.inputs[0]
        return get_dtype(integers) if integers is not None else None
    named = int(get_attributes(node).get("output_dtype", 0))
    # values of TensorProto.DataType; 0 means the type of the zero point, or uint8 without one
    return {0: np.dtype(np.uint8), 2: np.dtype(np.uint8), 3: np.dtype(np.int8)}.get(named)


def to_quant_params(
    scales: NDArray[Any],
    zeros: NDArray[Any] | None,
    dtype: np.dtype[Any],
    axis: int,
    integers: Value | None = None,
) -> QuantParams | None:
    """Quantization parameters from the arrays of a quantizer; None if they are block-wise or not integer.

    Raises:
        ModelError: A scale is not positive and finite; the message names the integers.
    """
    if dtype.kind not in "iu" or scales.ndim > 1:
        return None
    bits, info = dtype.itemsize * 8, np.iinfo(dtype)
    qtype = QType(bits, dtype.kind == "i", int(info.min), int(info.max))
    if zeros is None:
        zeros = np.zeros(scales.shape, np.int64)
    if not scales.size or zeros.size not in (1, scales.size):
        return None
    bad = scales[~(np.isfinite(scales) & (scales > 0))]
    if bad.size:
        what = "a constant" if integers is None else f"tensor {integers.name}"
        raise ModelError(
            f"{what} has scale {bad.flat[0]:g}, which is not positive and finite; "
            "quantize the model again"
        )
    if scales.size == 1:
        return QuantParams(scales.reshape(()), zeros.reshape(()).astype(np.int64), qtype)
    shape = get_shape(integers) if integers is not None else None
    axis = axis + len(shape) if axis < 0 and shape is not None else axis
    return QuantParams(scales, zeros.astype(np.int64), qtype, axis)


def read_qparams(
    scale: Value | None, zero_point: Value | None, integers: Value, axis: int | None = None
) -> QuantParams | None:
    """Quantization parameters of an operator that has scale and zero point as inputs; None if not constant.

    An absent zero point is 0, in the type of the integers. One scale with several zero points, or several scales
    with one zero point, are broadcast to per-channel parameters.
    """
    scales, zeros = get_constant(scale), get_constant(zero_point)
    if scales is None or (zero_point is not None and zeros is None):
        return None
    dtype = zeros.dtype if zeros is not None else get_dtype(integers) or np.dtype(np.uint8)
    if zeros is not None and scales.size != zeros.size and 1 in (scales.size, zeros.size):
        if not is_constant(integers):
            return None
        scales, zeros = np.broadcast_arrays(scales.reshape(-1), zeros.reshape(-1))
    return to_quant_params(scales, zeros, dtype, axis if axis is not None else 0, integers)


def get_all_attributes(node: Node) -> dict[str, Any]:
    """Attributes of the node, and constant inputs that were attributes in older opsets."""
    attrs = get_attributes(node)
    if node.op_type in ("LogSoftmax", "Softmax", "QLinearSoftmax"):
        attrs["axis"], together = get_softmax_axes(node)
        if together:
            attrs["together"] = True
    if node.op_type == "Split":
        attrs["num_outputs"] = len(node.outputs)
    for position, name in ATTRIBUTES_NOW_INPUTS.get(node.op_type, {}).items():
        value = node.inputs[position] if position < len(node.inputs) else None
        array = get_constant(value)
        if array is not None:
            # the standard requires a scalar; ONNX Runtime takes a single value of any rank
            attrs[name] = array.reshape(()) if name in SCALAR_INPUTS and array.size == 1 else array
    return attrs


def match_supported_qdq_op(node: Node, bits: int = 8) -> QuantizedOp | None:
    """`match_qdq_op`; None if no kernel computes the operator."""
    found = match_qdq_op(node, bits)
    return None if found is None or explain_unsupported_unit(found) else found


def match_qdq_op(node: Node, bits: int = 8) -> QuantizedOp | None:
    """The node with the integers of its inputs and outputs; None if one is float or has another bit width.

    Args:
        node: The float operator between the quantizers.
        bits: Bits of its activations. Constant weights have 8, biases 32.
    """
    spec = get_spec(node)
    if spec is None:
        return None
    inputs: list[QuantizedTensor | Value | None] = []
    for position, value in enumerate(node.inputs):
        role = spec.role_of(position)
        if value is None or role in (Role.KEEP, Role.VALUE):
            inputs.append(value)
            continue
        quantized = find_quantized_source(value)
        if quantized is None or quantized.params.qtype.bits != _get_bits(role, quantized, bits):
            return None
        inputs.append(quantized)
    outputs: list[QuantizedTensor | None] = []
    for value in node.outputs:
        if spec.output_rule is OutputRule.NONE or not (value.uses() or value.is_graph_output()):
            outputs.append(None)
            continue
        quantized = find_quantized_result(value)
        if quantized is None and has_float_result(node, spec):
            outputs.append(None)
        elif quantized is None or quantized.params.qtype.bits != bits:
            return None
        else:
            outputs.append(quantized)
    return QuantizedOp(node, spec, tuple(inputs), tuple(outputs))


def _get_bits(role: Role, operand: QuantizedTensor, activation_bits: int) -> int:
    """The bits that an operand must have, given those of activations."""
    if role is Role.BIAS:
        return 32
    return 8 if role is Role.WEIGHT and is_constant(operand.integers) else activation_bits


def has_float_result(node: Node, spec: OpSpec) -> bool:
    """Whether ONNX Runtime computes the product on integers and returns float.

    It does not if a reader quantizes the result. It also does not if it first fuses MatMul and Add to a Gemm, because
    the C of that Gemm is float.
    """
    readers = list_consumers(node.outputs[0])
    if spec.float_output_form is None or any(
        get_operator(reader) == "QuantizeLinear" for reader in readers
    ):
        return False
    if spec.op != "MatMul" or [get_operator(reader) for reader in readers] != ["Add"]:
        return True
    left, right = (get_shape(value) if value is not None else None for value in node.inputs[:2])
    if left is None or right is None or None in left or len(right) != 2:
        return True
    added = [value for value in readers[0].inputs if value is not node.outputs[0]]
    shape = get_shape(added[0]) if added and added[0] is not None else None
    return shape not in ((right[1],), (1, right[1]))


def explain_unsupported_unit(unit: QuantizedOp) -> str:
    """Why no integer kernel computes an operator between quantizers; empty if one does."""
    node, spec = unit.node, unit.spec
    if spec.op.startswith("Resize") and (why := resize_unsupported_reason(get_attributes(node))):
        return why
    if infinite := find_infinite_attribute(node):
        return infinite
    for position, operand in enumerate(unit.inputs):
        if not isinstance(operand, QuantizedTensor):
            if operand is None or spec.role_of(position) is not Role.VALUE:
                continue
            given = get_constant(operand)
            if given is None:
                return f"value {operand.name} is computed"
            if not given.size or np.isnan(given).any():
                return f"value {operand.name} is empty or holds NaN"
            continue
        role, array, axis = (
            spec.role_of(position),
            get_constant(operand.integers),
            operand.params.axis,
        )
        what = f"{role.value} {operand.integers.name}"
        if role is Role.ACTIVATION and axis is not None:
            return f"{what} has per-channel scales"
        if role is Role.WEIGHT and array is None and not (spec.two_activations and axis is None):
            return f"{what} is not constant"
        across = array is not None and axis not in (None, get_channel_axis(node, array.ndim))
        if role is Role.WEIGHT and across:
            return f"{what} has its scales along axis {axis}, not along the output channels"
        if role is Role.BIAS and array is None:
            return f"{what} is not constant"
        if role is Role.BIAS and spec.op == "Gemm" and array is not None:
            if get_attributes(node).get("beta", 1.0) != 1.0:
                return f"beta scales {what}"
            if array.size != 1 and array.size != array.shape[-1]:
                return f"{what} does not have one value for each column"
    for output in unit.outputs:
        if output is not None and output.params.axis is not None:
            return f"output {output.integers.name} has per-channel scales"
    return ""
