"""Rules of LiteRT's specification for one quantized operator; clauses are cited by operator and operand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ptq.core.opspec import FixedQParams, OpSpec, OutputRule, Role
from ptq.core.target import Target
from ptq.core.types import QuantParams
from ptq.model.node import (
    Node,
    Value,
    get_attributes,
    get_constant,
    get_name,
    get_operator,
    is_constant,
    require_constant,
)
from ptq.model.qdq.qdq_units import (
    QuantizedTensor,
    find_quantized_result,
    find_quantized_source,
    match_supported_qdq_op,
)
from ptq.model.weights.layer_weights import get_channel_axis

# each of the two roundings in a product of float32 scales may be off by one ULP
_SCALE_TOLERANCE = 2.0**-22


@dataclass(frozen=True)
class Finding:
    """One difference from the specification.

    Attributes:
        tensor: Name of the tensor.
        node: Name of the node.
        rule: Short name of the rule, for filters.
        clause: Place in the specification: operator, operand, restriction.
        text: The actual and the required value.
        severity: ``error`` if the specification is broken, ``note`` if it does not cover the case.
    """

    tensor: str
    node: str
    rule: str
    clause: str
    text: str
    severity: Literal["error", "note"] = "error"


def get_clause_name(node: Node, spec: OpSpec) -> str:
    """Heading of the operator in the specification; depthwise Conv and Pad with a value have their own headings."""
    weight = find_quantized_source(node.inputs[1]) if len(node.inputs) > 1 else None
    array = get_constant(weight.integers) if weight is not None else None
    group = int(get_attributes(node).get("group", 1))
    if get_operator(node) == "Conv" and array is not None and group > 1 and array.shape[1] == 1:
        return "DEPTHWISE_CONV_2D"
    pad_value = (
        get_constant(node.inputs[2])
        if get_operator(node) == "Pad" and len(node.inputs) > 2
        else None
    )
    if pad_value is not None and pad_value.any():
        return "PADV2"
    return spec.litert or get_operator(node)


def check_operator(node: Node, spec: OpSpec, row: Target) -> Iterator[Finding]:
    """Findings at one operator of the operator table.

    Of an operator that runs in float, only its weights and quantized tensors have rules, each by itself.
    """
    rules, in_float = _Rules(node, get_clause_name(node, spec), row), _has_float_tensor(node, spec)
    first = find_quantized_source(node.inputs[0]) if node.inputs else None
    for position, value in enumerate(node.inputs):
        quantized = find_quantized_source(value)
        role = spec.role_of(position)
        if value is None or role in (Role.KEEP, Role.VALUE):
            continue
        where = f"Input {position}"
        if role is Role.WEIGHT and quantized is not None and is_constant(quantized.integers):
            yield from rules.check_weight(quantized, f"{where} (Weight)")
        elif role is Role.BIAS and in_float and quantized is None:
            continue
        elif role is Role.BIAS:
            weight = find_quantized_source(node.inputs[1])
            yield from rules.check_bias(value, quantized, first, weight, f"{where} (Bias)")
        elif quantized is not None:
            yield from rules.check_activation(quantized, where)
            if spec.same_scale and first is not None and position and not in_float:
                yield from rules.check_same_scale(quantized, first)
    for position, value in enumerate(node.outputs):
        quantized = find_quantized_result(value)
        if quantized is None:
            continue
        where = f"Output {position}"
        yield from rules.check_activation(quantized, where)
        if in_float:
            continue
        prescribed = row.output_rule(spec)
        if isinstance(prescribed, FixedQParams):
            yield from rules.check_fixed_output(quantized, prescribed, where)
        elif spec.same_scale and first is not None:
            yield from rules.check_same_scale(quantized, first)


def _has_float_tensor(node: Node, spec: OpSpec) -> bool:
    """Whether a tensor that an integer kernel needs is float; a float bias alone is a breach of the bias's rules."""
    if match_supported_qdq_op(node) is not None:
        return False
    quantized_roles = (Role.ACTIVATION, Role.WEIGHT)
    read = [v for i, v in enumerate(node.inputs) if spec.role_of(i) in quantized_roles]
    if any(value is not None and find_quantized_source(value) is None for value in read):
        return True
    written = [] if spec.output_rule is OutputRule.NONE else node.outputs
    used = [value for value in written if value.uses() or value.is_graph_output()]
    return any(find_quantized_result(value) is None for value in used)


@dataclass(frozen=True, eq=False)
class _Rules:
    node: Node
    heading: str
    row: Target

    def _finding(self, tensor: Value, rule: str, clause: str, text: str) -> Finding:
        name = self.node.name or ""
        return Finding(get_name(tensor), name, rule, f"{self.heading}: {clause}", text)

    def check_activation(self, quantized: QuantizedTensor, where: str) -> Iterator[Finding]:
        """Check an activation: int8, one scale."""
        params, wanted = quantized.params, self.row.activation
        if params.qtype.dtype != wanted.dtype:
            text = f"activation is {params.qtype.name}, not {wanted.name}"
            yield self._finding(quantized.integers, "activation-type", f"{where}, data_type", text)
        if params.axis is not None:
            text = f"activation has {params.scale.size} scales along axis {params.axis}, not one"
            yield self._finding(quantized.integers, "per-tensor", f"{where}, granularity", text)

    def check_weight(self, quantized: QuantizedTensor, where: str) -> Iterator[Finding]:
        """Check a weight: type and range; zero point 0, unless the target has others; scales of output channels."""
        params, wanted = quantized.params, self.row.weight
        array = require_constant(quantized.integers)
        if params.qtype.dtype != wanted.dtype:
            text = f"weight is {params.qtype.name}, not {wanted.name}"
            yield self._finding(quantized.integers, "weight-type", f"{where}, data_type", text)
        elif low := int(np.count_nonzero(array < wanted.lo)):
            text = f"{low} weights are {int(array.min())}, below {wanted.lo}"
            yield self._finding(quantized.integers, "weight-range", f"{where}, range", text)
        if params.zero_point.any() and not self.row.weight_zero_point:
            zeros = params.zero_point.reshape(-1)
            text = f"zero point is {int(zeros[zeros != 0][0])}, not 0"
            yield self._finding(
                quantized.integers,
                "weight-zero-point",
                f"{where}, restriction: zero_point = 0",
                text,
            )
        axis = get_channel_axis(self.node, array.ndim)
        if params.axis is not None and params.axis != axis:
            allowed = "only one scale" if axis is None else f"scales along axis {axis}"
            text = f"scales run along axis {params.axis}; the operator allows {allowed}"
            yield self._finding(quantized.integers, "weight-axis", f"{where}, granularity", text)

    def check_bias(
        self,
        value: Value,
        quantized: QuantizedTensor | None,
        x: QuantizedTensor | None,
        w: QuantizedTensor | None,
        where: str,
    ) -> Iterator[Finding]:
        """Check a bias: int32, zero point 0, scale input × weight."""
        if quantized is None or quantized.params.qtype.name != "int32":
            kind = quantized.params.qtype.name if quantized is not None else "float"
            text = f"bias is {kind}, not int32"
            yield self._finding(value, "bias-type", f"{where}, data_type", text)
            return
        clause = (
            f"{where}, restriction: (scale, zero_point) = (input0_scale * input1_scale[...], 0)"
        )
        if quantized.params.zero_point.any():
            yield self._finding(
                quantized.integers, "bias-zero-point", clause, "zero point of the bias is not 0"
            )
        if x is None or w is None:
            return
        expected = np.asarray(x.params.scale.astype(np.float64) * w.params.scale)
        if get_operator(self.node) == "ConvTranspose" and expected.size > 1:
            # its weight has the channels of one group, whose scales hold for all
            expected = np.tile(expected, int(get_attributes(self.node).get("group", 1)))
        got = quantized.params.scale.astype(np.float64)
        if got.size not in (1, expected.size) and expected.size != 1:
            text = f"bias has {got.size} scales, the weight {expected.size}"
            yield self._finding(quantized.integers, "bias-scale", clause, text)
            return
        differs = np.abs(got - expected) > _SCALE_TOLERANCE * expected
        if differs.any():
            channel = int(np.argmax(differs.reshape(-1)))
            pair = (np.resize(v, differs.size)[channel] for v in (got, expected))
            text = "scale {:.8g} is not input × weight = {:.8g}".format(*pair)
            text += f" in channel {channel}" if differs.size > 1 else ""
            yield self._finding(quantized.integers, "bias-scale", clause, text)

    def check_same_scale(
        self, quantized: QuantizedTensor, first: QuantizedTensor
    ) -> Iterator[Finding]:
        """Check that inputs and outputs share one scale and zero point."""
        if quantized.params.scale.tobytes() == first.params.scale.tobytes() and np.array_equal(
            quantized.params.zero_point, first.params.zero_point
        ):
            return
        text = (
            f"{_describe_qparams(quantized.params)} differs from {get_name(first.integers)}: "
            f"{_describe_qparams(first.params)}"
        )
        clause = "restriction: Input and outputs must all have same scale/zero_point"
        yield self._finding(quantized.integers, "same-scale", clause, text)

    def check_fixed_output(
        self, quantized: QuantizedTensor, wanted: FixedQParams, where: str
    ) -> Iterator[Finding]:
        """Check an output with a prescribed scale and zero point."""
        params = quantized.params
        scale, zero_point = np.float32(wanted.scale), wanted.zero_point
        # uint8 values are 128 more; the type has its own finding
        shift = 0 if params.qtype.signed == self.row.activation.signed else 128
        same_scale = params.axis is None and params.scale == scale
        if same_scale and int(params.zero_point) == zero_point + shift:
            return
        clause = f"{where}, restriction: (scale, zero_point) = ({_format_scale(wanted.scale)}, {zero_point})"
        yield self._finding(
            quantized.integers,
            "fixed-output",
            clause,
            f"{_describe_qparams(params)} is not the prescribed value",
        )


def _describe_qparams(params: QuantParams) -> str:
    if params.axis is not None:
        return f"{params.scale.size} scales"
    return f"scale {float(params.scale):.8g}, zero point {int(params.zero_point)}"


def _format_scale(scale: float) -> str:
    return f"1.0 / {1 / scale:.1f}" if (1 / scale).is_integer() else f"{scale:g}"
