"""QLinear operators of ONNX Runtime → DequantizeLinear, float operator, QuantizeLinear.

Every integer tensor keeps its name, scale and zero point. Operators that run on integers without parameters (MaxPool,
Reshape, Clip …) get quantizers around them too. A bias is its int32 values times the scale input × weight, and times
alpha for QGemm, which multiplies its C by alpha too. MatMulInteger, ConvInteger and DynamicQuantizeLinear stay
unchanged.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ptq.core.errors import UnsupportedError
from ptq.core.ops import QLINEAR_FORMS
from ptq.core.opset_changes import ATTRIBUTES_NOW_INPUTS, SCALAR_INPUTS
from ptq.core.opspec import RUNS_ON_INTEGERS, OpSpec, OutputRule, QLinearForm, Role
from ptq.core.types import FLOAT32, QuantParams
from ptq.model.graph import Graph
from ptq.model.node import (
    QUANTIZERS,
    Node,
    Value,
    declare_dtype,
    get_attributes,
    get_constant,
    get_name,
    get_operator,
    get_spec,
)
from ptq.model.qdq.inferred_qparams import infer_qparams
from ptq.model.qdq.qlinear_inputs import QuantizedOperand, read_operands
from ptq.rewrite.edit import set_attributes
from ptq.rewrite.imported.qlinear_operands import (
    add_default_zero_point,
    get_float_softmax_axis,
    infer_weight_axis,
    read_operand_qparams,
    with_default_zero_point,
)


def convert_qlinear_to_qdq(
    graph: Graph, *, partly: bool = False, only: Collection[str] | None = None
) -> Graph:
    """A copy of the graph with the same integer function in QDQ form.

    Args:
        graph: A quantized graph.
        partly: Leave operators without a float form unchanged.
        only: The QLinear operators to convert; all others stay. None for all operators on integers.

    Raises:
        UnsupportedError: An operator has no float form; the message names it and the reason.
    """
    rewritten = graph.copy()
    if graph.opset < 10:
        raise UnsupportedError(
            f"opset {graph.opset} has no QuantizeLinear; convert the model to opset 13 or newer"
        )
    writer = _QdqWriter(rewritten)
    for node in rewritten.nodes:
        op = get_operator(node)
        if op in QUANTIZERS:
            writer.record_quantizer(node)
        elif op in QLINEAR_FORMS and (only is None or op in only):
            try:
                writer.convert_qlinear(node, *QLINEAR_FORMS[op])
            except UnsupportedError:
                if not partly:
                    raise
        elif (
            only is None
            and (spec := get_spec(node))
            and (spec.qlinear is RUNS_ON_INTEGERS or spec.is_activation)
        ):
            writer.convert_integer_op(node, spec)
    rewritten.remove_unused()
    return rewritten


@dataclass
class _QdqWriter:
    """Converts one node after the other.

    Attributes:
        graph: The graph, changed in place.
        known_operands: By name of the integers: the integers, their scale and zero point.
        dequantized_values: Outputs of DequantizeLinear nodes, by names of integers, scale, zero point, and by axis.
    """

    graph: Graph
    known_operands: dict[str, QuantizedOperand] = field(default_factory=dict)
    dequantized_values: dict[tuple[str, str, str, int | None], Value] = field(default_factory=dict)

    def record_quantizer(self, node: Node) -> None:
        """Store the scale and zero point of the tensor that a quantizer writes or reads."""
        reads = get_operator(node) == "DequantizeLinear"
        integers = node.inputs[0] if reads else node.outputs[0]
        scale, zero_point = node.inputs[1], node.inputs[2] if len(node.inputs) > 2 else None
        if integers is not None and scale is not None:
            self.known_operands.setdefault(get_name(integers), (integers, scale, zero_point))

    def convert_qlinear(self, node: Node, spec: OpSpec, form: QLinearForm) -> None:
        """Convert one QLinear operator."""
        operands = read_operands(node, form)
        if operands is None or operands.unknown_inputs:
            raise UnsupportedError(
                f"{get_operator(node)} {node.name} has inputs that QDQ cannot express"
            )
        inputs: dict[int, Value | None] = {}
        triples = {i: with_default_zero_point(self.graph, t) for i, t in operands.triples.items()}
        for index, triple in triples.items():
            inputs[index] = self._dequantized_operand(
                triple, infer_weight_axis(spec, index, triple, node), node
            )
        for index, integers in operands.biases.items():
            if spec.role_of(index) is Role.KEEP:
                inputs[index] = integers
                continue
            if integers is not None:
                inputs[index] = self._dequantized_bias(integers, list(triples.values()), node)
        attrs = self._float_attributes(node, spec)
        reals = [inputs.get(i) for i in range(max(inputs) + 1)]
        if operands.output_qparams is not None:
            parameters = add_default_zero_point(
                self.graph, operands.output_qparams, next(iter(triples.values()))
            )
            self._replace_with_qdq(node, spec.op, reals, attrs, parameters)
        else:
            self.graph.redirect(node.outputs[0], self._insert_float_op(node, spec.op, reals, attrs))

    def convert_integer_op(self, node: Node, spec: OpSpec) -> None:
        """Convert an operator that runs on integers, if their scale and zero point are stored."""
        first = node.inputs[0]
        if (
            first is None
            or get_name(first) not in self.known_operands
            or spec.output_rule is OutputRule.NONE
        ):
            return
        integers, scale, zero_point = self.known_operands[get_name(first)]
        params = read_operand_qparams(integers, scale, zero_point, node)
        if spec.op == "Identity" and infer_qparams(node.outputs[0]) not in (None, params):
            return  # an Identity between two scales of the same integers, see split_reinterpretation
        for position, value in enumerate(node.inputs):
            role = spec.role_of(position)
            if value is not None and role is Role.ACTIVATION:
                real = self._dequantized_operand((value, scale, zero_point), None, node)
                node.replace_input_with(position, real)
            elif value is not None and role is Role.VALUE:
                node.replace_input_with(position, self._float_constant(value, params, node))
        attrs = get_attributes(node)
        for name in ATTRIBUTES_NOW_INPUTS.get(spec.op, {}).values():
            if name in SCALAR_INPUTS and name in attrs:
                bound = float(params.dequantize(np.asarray(attrs[name])))
                set_attributes(node, **{name: bound})
        for value in node.outputs:
            self._append_quantizer(value, (scale, zero_point))

    def _append_quantizer(self, old: Value, parameters: tuple[Value, Value | None]) -> None:
        """Add a QuantizeLinear after a value that held integers; it takes the name and the readers of the value."""
        name, kind = get_name(old), old.type
        integers = self.graph.insert(
            "QuantizeLinear",
            [old, *parameters],
            after=old.producer(),
            output=f"{name}_requantized",
            shape_like=old,
        )
        quantizer = integers.producer()
        assert quantizer is not None
        self.graph.substitute(old, integers, keep=[quantizer], rename_old="real")
        old.type, integers.type = None, kind
        declare_dtype(old, FLOAT32)
        self.known_operands[name] = (integers, *parameters)

    def _float_attributes(self, node: Node, spec: OpSpec) -> dict[str, Any]:
        """The attributes of the float operator, without those that only the integer form has.

        Raises:
            UnsupportedError: The float operator cannot express such an attribute.
        """
        attrs = get_attributes(node)
        if spec.op == "Softmax":
            attrs["axis"] = get_float_softmax_axis(self.graph, node)
            attrs.pop("opset", None)
        if spec.op in ("AveragePool", "GlobalAveragePool") and attrs.pop("channels_last", 0):
            raise UnsupportedError(
                f"{get_operator(node)} {node.name} has its channels last, which ONNX pools do not support; "
                "convert the model as it was before ONNX Runtime optimized it"
            )
        return attrs

    def _replace_with_qdq(
        self,
        node: Node,
        op: str,
        inputs: list[Value | None],
        attrs: dict[str, Any],
        parameters: tuple[Value, Value | None],
    ) -> None:
        old = node.outputs[0]
        name = get_name(old)
        real = self._insert_float_op(node, op, inputs, attrs)
        scale, zero_point = parameters
        integers = self.graph.insert(
            "QuantizeLinear",
            [real, scale, zero_point],
            before=node,
            output=f"{name}_requantized",
            shape_like=old,
        )
        integers.type = old.type
        self.graph.substitute(old, integers, rename_old="replaced")
        self.known_operands[name] = (integers, scale, zero_point)

    def _insert_float_op(
        self, node: Node, op: str, inputs: list[Value | None], attrs: dict[str, Any]
    ) -> Value:
        """Insert the float operator before an integer one and give it the name of that node."""
        real = self.graph.insert(
            op,
            inputs,
            attrs=attrs,
            before=node,
            output=f"{get_name(node.outputs[0])}_real",
            dtype=FLOAT32,
            shape_like=node.outputs[0],
        )
        maker = real.producer()
        assert maker is not None
        maker.name, node.name = node.name, maker.name
        return real

    def _dequantized_operand(self, triple: QuantizedOperand, axis: int | None, node: Node) -> Value:
        integers, scale, zero_point = triple
        key = (
            get_name(integers),
            get_name(scale),
            get_name(zero_point) if zero_point else "",
            axis,
        )
        if key not in self.dequantized_values:
            self.dequantized_values[key] = self._insert_dequantizer(
                integers, scale, zero_point, axis, node
            )
        if not integers.is_initializer():
            self.known_operands.setdefault(get_name(integers), triple)
        return self.dequantized_values[key]

    def _dequantized_bias(
        self, integers: Value, triples: list[QuantizedOperand], node: Node
    ) -> Value:
        x, w = (read_operand_qparams(*triple, node) for triple in triples[:2])
        alpha = np.float32(get_attributes(node).get("alpha", 1.0))
        scale = np.asarray((alpha * x.scale) * w.scale)
        if alpha <= 0:
            raise UnsupportedError(
                f"{get_operator(node)} {node.name} has alpha = {alpha:g} on its bias; "
                "no integer scale can express that"
            )
        axis, array = None, get_constant(integers)
        if scale.ndim:
            if array is None:
                raise UnsupportedError(
                    f"{get_operator(node)} {node.name} computes its bias; it must be constant"
                )
            if not array.ndim or array.shape[-1] != scale.size:
                array = np.broadcast_to(array, (*array.shape[:-1], scale.size)).copy()
                integers = self.graph.add_constant(array, f"{get_name(integers)}_repeated")
            axis = array.ndim - 1
        scales = self.graph.add_constant(scale, f"{get_name(integers)}_scale")
        return self._insert_dequantizer(integers, scales, None, axis, node)

    def _float_constant(self, value: Value, params: QuantParams, node: Node) -> Value:
        array = get_constant(value)
        if array is None:
            raise UnsupportedError(
                f"{get_operator(node)} {node.name} computes {get_name(value)}; it must be constant"
            )
        return self.graph.add_constant(params.dequantize(array), f"{get_name(value)}_real")

    def _insert_dequantizer(
        self, integers: Value, scale: Value, zero_point: Value | None, axis: int | None, node: Node
    ) -> Value:
        # Before opset 13 only Microsoft's DequantizeLinear has an axis.
        early = axis is not None and self.graph.opset < 13
        return self.graph.insert(
            "com.microsoft::DequantizeLinear" if early else "DequantizeLinear",
            [integers, scale] if zero_point is None else [integers, scale, zero_point],
            attrs={} if axis is None else {"axis": axis},
            before=node,
            output=f"{get_name(integers)}_dequantized",
            dtype=FLOAT32,
            shape_like=integers,
        )
