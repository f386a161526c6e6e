"""QDQ graph → graph with ONNX Runtime's integer operators: QLinearConv, QGemm and so on (QOperator form).

An operator between a DequantizeLinear and a QuantizeLinear becomes its integer form. Data movement runs on the
integers themselves. An operator without an integer form keeps its quantizers. The integers of every tensor keep
their name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from ptq.core.opspec import AS_LOOKUP_TABLE, RUNS_ON_INTEGERS, OutputRule, QLinearForm, Role
from ptq.core.types import FLOAT32
from ptq.model.axes import get_softmax_axes
from ptq.model.graph import Graph
from ptq.model.machine.ort_version import INSTALLED, Version
from ptq.model.node import Value, get_attributes, get_constant, get_name
from ptq.model.qdq.qdq_units import QuantizedOp, QuantizedTensor, match_supported_qdq_op
from ptq.rewrite.imported.split_reinterpretation import split_reinterpreted_axes

INT8_SINCE_OPSET: Mapping[str, int] = {
    "ArgMax": 13,
    "MaxPool": 12,
    "ReduceMax": 12,
    "ReduceMin": 12,
    "Resize": 11,
}
"""The first opset in which an operator that is older accepts 8-bit integers in ONNX Runtime."""
KERNEL_SINCE: Mapping[tuple[str, bool], Version] = {
    ("DepthToSpace", False): (1, 21),
    ("DepthToSpace", True): (1, 28),
    ("SpaceToDepth", False): (1, 28),
    ("SpaceToDepth", True): (1, 28),
}
"""The first ONNX Runtime in which the operator accepts uint8 (False) or int8 (True), if 1.20 is too old for it."""


def to_qlinear(qdq: Graph, floats: Collection[str] = ()) -> Graph:
    """A copy of the graph with the same integer function in ONNX Runtime's QOperator form.

    Args:
        qdq: The graph in QDQ form.
        floats: Integer or float results of operators that shall keep their quantizers.
    """
    graph = qdq.copy()
    split_reinterpreted_axes(graph)
    for node in graph.nodes:
        found = match_supported_qdq_op(node)
        if found is None:
            continue
        if found.spec.qlinear is RUNS_ON_INTEGERS:
            _run_on_integers(graph, found)
            continue
        form = found.spec.float_output_form if found.has_float_output else found.spec.qlinear
        output = found.outputs[0]
        written = output.integers if output else node.outputs[0]
        if form is None or get_name(written) in floats:
            continue
        integers = _insert_integer_form(graph, found, form)
        if integers is not None:
            graph.substitute(written, integers, rename_old="replaced")
    graph.remove_unused()
    return graph


def _insert_integer_form(graph: Graph, unit: QuantizedOp, form: QLinearForm) -> Value | None:
    if form is AS_LOOKUP_TABLE:
        return _insert_integer_clip(graph, unit)
    return _insert_qlinear(graph, unit, form) if has_ort_kernel(unit) else None


def has_ort_kernel(unit: QuantizedOp) -> bool:
    """Whether ONNX Runtime has a kernel for these types: activations of one type, and no int8 with uint8 weights."""
    kinds = {
        operand.params.qtype.signed
        for position, operand in enumerate(unit.inputs)
        if isinstance(operand, QuantizedTensor) and unit.spec.role_of(position) is Role.ACTIVATION
    }
    kinds |= {output.params.qtype.signed for output in unit.outputs if output is not None}
    weight = unit.inputs[1] if unit.spec.role_of(1) is Role.WEIGHT else None
    signed_weight = not isinstance(weight, QuantizedTensor) or weight.params.qtype.signed
    return kinds == {False} or (kinds == {True} and signed_weight)


def _run_on_integers(graph: Graph, unit: QuantizedOp) -> None:
    """Let the operator itself run on integers if inputs and outputs have the same scale and zero point."""
    first, node = unit.inputs[0], unit.node
    assert isinstance(first, QuantizedTensor)
    if any(output is not None and output.params != first.params for output in unit.outputs):
        return
    if graph.opset < INT8_SINCE_OPSET.get(node.op_type, 0):
        return
    if KERNEL_SINCE.get((node.op_type, first.params.qtype.signed), INSTALLED) > INSTALLED:
        return
    if unit.spec.op == "Pad" and (len(node.inputs) < 3 or node.inputs[2] is None):
        node.resize_inputs(max(3, len(node.inputs)))
        node.replace_input_with(2, _quantize_constant(graph, None, first))
    for position, operand in enumerate(unit.inputs):
        if isinstance(operand, QuantizedTensor):
            node.replace_input_with(position, operand.integers)
        elif operand is not None and unit.spec.role_of(position) is Role.VALUE:
            node.replace_input_with(position, _quantize_constant(graph, operand, first))
    for value, output in zip(node.outputs, unit.outputs, strict=True):
        if output is not None:
            value.type = output.integers.type
            graph.substitute(output.integers, value, rename_old="replaced")
        elif unit.spec.output_rule is not OutputRule.NONE:
            value.type = first.integers.type


def _quantize_constant(graph: Graph, value: Value | None, tensor: QuantizedTensor) -> Value:
    """A constant quantized with the parameters of a tensor; 0 if there is no constant."""
    real = get_constant(value) if value is not None else np.zeros((), np.float32)
    assert real is not None
    quantized = tensor.params.quantize(real.reshape(()))
    return graph.add_constant(quantized, f"{value.name if value else 'zero'}_quantized")


def _insert_integer_clip(graph: Graph, unit: QuantizedOp) -> Value | None:
    """Insert a Clip of integers for a Relu or Clip whose input and output have the same parameters; else None."""
    first, output = unit.inputs[0], unit.outputs[0]
    assert isinstance(first, QuantizedTensor) and output is not None
    if first.params != output.params or graph.opset < 12:
        return None  # Clip accepts 8-bit integers from opset 12 on
    bounds: list[Value | None] = [None, None]
    if unit.spec.op == "Relu":
        bounds[0] = _quantize_constant(graph, None, first)
    else:
        for position, operand in enumerate(unit.inputs[1:3]):
            if isinstance(operand, Value):
                bounds[position] = _quantize_constant(graph, operand, first)
    return graph.insert(
        "Clip",
        [first.integers, *bounds],
        before=unit.node,
        output=f"{unit.node.outputs[0].name}_clamped",
        dtype=first.params.qtype.dtype,
        shape_like=unit.node.outputs[0],
    )


def _insert_qlinear(graph: Graph, unit: QuantizedOp, form: QLinearForm) -> Value:
    output = unit.outputs[0]
    inputs: list[Value | None] = []
    for token in form.order.split():
        if token == "y":
            assert output is not None
            inputs += [output.scale, output.zero_point]
        elif token == "*":
            for operand in unit.inputs:
                inputs += _list_operand_values(operand)
        elif token.endswith("="):
            position = int(token[:-1])
            operand = unit.inputs[position] if position < len(unit.inputs) else None
            inputs.append(operand.integers if isinstance(operand, QuantizedTensor) else operand)
        elif token[-1] in "qsz":
            inputs.append(
                _list_operand_values(unit.inputs[int(token[:-1])])["qsz".index(token[-1])]
            )
        else:
            inputs += _list_operand_values(unit.inputs[int(token)])
    while inputs and inputs[-1] is None:
        inputs.pop()
    attrs = {**get_attributes(unit.node), **(form.attrs or {})}
    if unit.spec.op == "Gemm":
        attrs.pop("beta", None)  # QGemm adds its integer C without a factor
    if unit.spec.op == "Softmax":
        attrs["opset"], attrs["axis"] = graph.opset, get_softmax_axes(unit.node)[0]
    return graph.insert(
        form.op,
        inputs,
        attrs=attrs,
        before=unit.node,
        output=f"{unit.node.outputs[0].name}_integer",
        dtype=FLOAT32 if output is None else output.params.qtype.dtype,
        shape_like=unit.node.outputs[0],
    )


def _list_operand_values(operand: QuantizedTensor | Value | None) -> list[Value | None]:
    assert isinstance(operand, QuantizedTensor)
    return [operand.integers, operand.scale, operand.zero_point]
