"""Lays one operator between quantizers beside LiteRT's specification; clauses are cited by operator and operand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ptq.core.opspec import FixedQParams, OpSpec, Role
from ptq.core.targets import Target
from ptq.core.types import QuantParams
from ptq.model.layer_weights import channel_axis
from ptq.model.node import Node, Value, attributes_of, constant_of, name_of, operator_of
from ptq.model.qdq_units import QuantizedTensor, quantized_result, quantized_source

# a product of two float32 scales, rounded, may be off by one unit in the last place of each rounding
_SCALE_TOLERANCE = 2.0**-22


@dataclass(frozen=True)
class Finding:
    """One departure from the specification.

    Attributes:
        tensor: The tensor concerned.
        node: The node at which it is seen.
        rule: A short name, to filter by.
        clause: Where the specification says so: operator, operand, restriction.
        text: What is wrong and what it should be.
        severity: ``error`` where the specification is broken, ``note`` where it has nothing to say.
    """

    tensor: str
    node: str
    rule: str
    clause: str
    text: str
    severity: Literal["error", "note"] = "error"


def clause_name(node: Node, spec: OpSpec) -> str:
    """The operator's heading in the specification; depthwise convolutions and pads with a value have their own."""
    weight = quantized_source(node.inputs[1]) if len(node.inputs) > 1 else None
    array = constant_of(weight.integers) if weight is not None else None
    group = int(attributes_of(node).get("group", 1))
    if operator_of(node) == "Conv" and array is not None and group > 1 and array.shape[1] == 1:
        return "DEPTHWISE_CONV_2D"
    filling = (
        constant_of(node.inputs[2]) if operator_of(node) == "Pad" and len(node.inputs) > 2 else None
    )
    if filling is not None and filling.any():
        return "PADV2"
    return spec.litert or operator_of(node)


def check_operator(node: Node, spec: OpSpec, row: Target) -> Iterator[Finding]:
    """Every breach at one operator of the table."""
    rules = _Rules(node, clause_name(node, spec), row)
    first = quantized_source(node.inputs[0]) if node.inputs else None
    for position, value in enumerate(node.inputs):
        found = quantized_source(value)
        role = spec.role_of(position)
        if value is None or role in (Role.KEEP, Role.VALUE):
            continue
        where = f"Input {position}"
        if role is Role.WEIGHT and found is not None and constant_of(found.integers) is not None:
            yield from rules.check_weight(found, f"{where} (Weight)")
        elif role is Role.BIAS:
            weight = quantized_source(node.inputs[1])
            yield from rules.check_bias(value, found, first, weight, f"{where} (Bias)")
        elif found is not None:
            yield from rules.check_activation(found, where)
            if spec.same_scale and first is not None and position:
                yield from rules.check_same_scale(found, first)
    for position, value in enumerate(node.outputs):
        found = quantized_result(value)
        if found is None:
            continue
        where = f"Output {position}"
        yield from rules.check_activation(found, where)
        prescribed = row.output_rule(spec)
        if isinstance(prescribed, FixedQParams):
            yield from rules.check_fixed_output(found, prescribed, where)
        elif spec.same_scale and first is not None:
            yield from rules.check_same_scale(found, first)


@dataclass(frozen=True, eq=False)
class _Rules:
    node: Node
    heading: str
    row: Target

    def _finding(self, tensor: Value, rule: str, clause: str, text: str) -> Finding:
        name = self.node.name or ""
        return Finding(name_of(tensor), name, rule, f"{self.heading}: {clause}", text)

    def check_activation(self, found: QuantizedTensor, where: str) -> Iterator[Finding]:
        """int8, one scale."""
        params, wanted = found.params, self.row.activation
        if params.qtype.dtype != wanted.dtype:
            text = f"activation is {params.qtype.name}, not {wanted.name}"
            yield self._finding(found.integers, "activation-type", f"{where}, data_type", text)
        if params.axis is not None:
            text = f"activation has {params.scale.size} scales along axis {params.axis}, not one"
            yield self._finding(found.integers, "per-tensor", f"{where}, granularity", text)

    def check_weight(self, found: QuantizedTensor, where: str) -> Iterator[Finding]:
        """int8 within [-127, 127], zero point 0, scales along the output channels if along any axis."""
        params, wanted = found.params, self.row.weight
        array = constant_of(found.integers)
        assert array is not None
        if params.qtype.dtype != wanted.dtype:
            text = f"weight is {params.qtype.name}, not {wanted.name}"
            yield self._finding(found.integers, "weight-type", f"{where}, data_type", text)
        elif low := int(np.count_nonzero(array < wanted.lo)):
            text = f"{low} weights are {int(array.min())}, below {wanted.lo}"
            yield self._finding(found.integers, "weight-range", f"{where}, range", text)
        if params.zero_point.any():
            off = params.zero_point.reshape(-1)
            text = f"zero point is {int(off[off != 0][0])}, not 0"
            yield self._finding(
                found.integers, "weight-zero-point", f"{where}, restriction: zero_point = 0", text
            )
        axis = channel_axis(self.node, array.ndim)
        if params.axis is not None and params.axis != axis:
            wish = "only one scale" if axis is None else f"scales along axis {axis}"
            text = f"scales run along axis {params.axis}; the operator takes {wish}"
            yield self._finding(found.integers, "weight-axis", f"{where}, granularity", text)

    def check_bias(
        self,
        value: Value,
        found: QuantizedTensor | None,
        x: QuantizedTensor | None,
        w: QuantizedTensor | None,
        where: str,
    ) -> Iterator[Finding]:
        """int32, zero point 0, scale input × weight."""
        if found is None or found.params.qtype.name != "int32":
            kind = found.params.qtype.name if found is not None else "float"
            text = f"bias is {kind}, not int32"
            yield self._finding(value, "bias-type", f"{where}, data_type", text)
            return
        clause = (
            f"{where}, restriction: (scale, zero_point) = (input0_scale * input1_scale[...], 0)"
        )
        if found.params.zero_point.any():
            yield self._finding(
                found.integers, "bias-zero-point", clause, "zero point of the bias is not 0"
            )
        if x is None or w is None:
            return
        wanted = np.asarray(x.params.scale.astype(np.float64) * w.params.scale)
        got = found.params.scale.astype(np.float64)
        if got.size not in (1, wanted.size) and wanted.size != 1:
            text = f"bias has {got.size} scales, the weight {wanted.size}"
            yield self._finding(found.integers, "bias-scale", clause, text)
            return
        off = np.abs(got - wanted) > _SCALE_TOLERANCE * wanted
        if off.any():
            channel = int(np.argmax(off.reshape(-1)))
            pair = (np.resize(v, off.size)[channel] for v in (got, wanted))
            text = "scale {:.8g} is not input × weight = {:.8g}".format(*pair)
            text += f" in channel {channel}" if off.size > 1 else ""
            yield self._finding(found.integers, "bias-scale", clause, text)

    def check_same_scale(self, found: QuantizedTensor, first: QuantizedTensor) -> Iterator[Finding]:
        """One scale and zero point for inputs and output."""
        if found.params.scale.tobytes() == first.params.scale.tobytes() and np.array_equal(
            found.params.zero_point, first.params.zero_point
        ):
            return
        text = f"{_describe_qparams(found.params)} differs from {name_of(first.integers)}: {_describe_qparams(first.params)}"
        clause = "restriction: Input and outputs must all have same scale/zero_point"
        yield self._finding(found.integers, "same-scale", clause, text)

    def check_fixed_output(
        self, found: QuantizedTensor, wanted: FixedQParams, where: str
    ) -> Iterator[Finding]:
        """The scale and zero point that the specification prescribes."""
        params = found.params
        scale, zero_point = np.float32(wanted.scale), wanted.zero_point
        # what uint8 counts is 128 more; its type is a finding of its own
        shift = 0 if params.qtype.signed == self.row.activation.signed else 128
        obeyed = params.axis is None and params.scale == scale
        if obeyed and int(params.zero_point) == zero_point + shift:
            return
        clause = f"{where}, restriction: (scale, zero_point) = ({_format_scale(wanted.scale)}, {zero_point})"
        yield self._finding(
            found.integers,
            "fixed-output",
            clause,
            f"{_describe_qparams(params)}, not as prescribed",
        )


def _describe_qparams(params: QuantParams) -> str:
    if params.axis is not None:
        return f"{params.scale.size} scales"
    return f"scale {float(params.scale):.8g}, zero point {int(params.zero_point)}"


def _format_scale(scale: float) -> str:
    return f"1.0 / {1 / scale:.1f}" if (1 / scale).is_integer() else f"{scale:g}"
