"""Reading of a quantized graph, QDQ or QOperator, as a program of integer steps and float islands."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.ops import OPS, QLINEAR_FORMS
from ptq.core.opset_changes import SCALAR_INPUTS
from ptq.core.opspec import RUNS_ON_INTEGERS, OpSpec, OutputRule, QLinearForm, Role
from ptq.core.types import QuantParams
from ptq.executor.float_islands import FloatIsland, extract_islands
from ptq.executor.fused_clamps import mark_fused_clamps
from ptq.executor.padded_by_float import is_padded_by_float
from ptq.executor.program import Program, Step
from ptq.executor.schedule import sort_topologically
from ptq.model.graph import Graph
from ptq.model.node import (
    QUANTIZERS,
    Node,
    Value,
    get_attributes,
    get_constant,
    get_name,
    get_operator,
    get_spec_name,
)
from ptq.model.qdq.inferred_qparams import infer_qparams
from ptq.model.qdq.qdq_units import (
    QuantizedOp,
    QuantizedTensor,
    find_quantized_source,
    get_all_attributes,
    match_supported_qdq_op,
    read_qparams,
)
from ptq.model.qdq.qlinear_inputs import QuantizedOperand, explain_float_qlinear, read_operands
from ptq.model.weights.layer_weights import get_channel_axis

_WIDE = 16
"""Bits of wide activations."""


def read_program(
    graph: Graph,
    has_kernel: Callable[[str], bool],
    floats: Collection[str] = (),
    wide: Collection[str] = (),
) -> Program:
    """Read a quantized graph.

    Args:
        graph: QDQ, QOperator, or a mixture.
        has_kernel: Whether the arithmetic has a kernel for an operator; operators without one go to float islands.
        floats: Names of tensors whose operators go to float islands: integer tensors, and float outputs of integer
            products.
        wide: Operators for which the arithmetic has a kernel on activations of 16 bits.
    """
    reader = _Reader(graph, has_kernel, floats, wide)
    others: list[Node] = []
    for node in graph.nodes:
        if not reader.read(node):
            others.append(node)
    found = extract_islands(graph, [n for n in others if get_operator(n) not in QUANTIZERS])
    steps = sort_topologically([*reader.steps, *found])
    inputs, outputs = (tuple(map(get_name, values)) for values in (graph.inputs, graph.outputs))
    program = Program(tuple(steps), reader.params, reader.constants, inputs, outputs)
    return mark_fused_clamps(program)


@dataclass
class _Reader:
    graph: Graph
    has_kernel: Callable[[str], bool]
    float_tensors: Collection[str]
    wide: Collection[str]
    steps: list[Step | FloatIsland] = field(default_factory=list)
    params: dict[str, QuantParams] = field(default_factory=dict)
    constants: dict[str, NDArray[Any]] = field(default_factory=dict)

    def read(self, node: Node) -> bool:
        """Read the node as a step; return False if it belongs to a float island or to another step."""
        op = get_operator(node)
        if op == "QuantizeLinear":
            return self._read_quantize(node)
        if op == "DequantizeLinear":
            return self._read_dequantize(node)
        if op in QLINEAR_FORMS:
            return self._read_qlinear(node, *QLINEAR_FORMS[op])
        has_kernel = self.has_kernel(get_spec_name(node))
        found = match_supported_qdq_op(node) if has_kernel else None
        if found is None and get_spec_name(node) in self.wide:
            found = match_supported_qdq_op(node, _WIDE)
        if found is not None and self._is_forced_float(found):
            return False
        if found is not None:
            self._add_quantized_op(found)
            return True
        return has_kernel and self._read_integer_op(node)

    def _is_forced_float(self, found: QuantizedOp) -> bool:
        if found.has_float_output:
            return get_name(found.node.outputs[0]) in self.float_tensors
        outputs = (output for output in found.outputs if output is not None)
        is_named = any(get_name(output.integers) in self.float_tensors for output in outputs)
        return is_named or is_padded_by_float(found)

    def _read_quantize(self, node: Node) -> bool:
        source, output = node.inputs[0], node.outputs[0]
        assert source is not None
        params = _read_output_qparams(node, output)
        if params is None:
            return False
        self.params[get_name(output)] = params
        before = find_quantized_source(source)
        if (
            before is not None
            and self._is_requantizable(before.params)
            and self._is_requantizable(params)
        ):
            self._add_tensor(before)
            self._add_step(node, "Requantize", (get_name(before.integers),), get_name(output))
        elif before is not None:
            self._add_dequantize(source, before)
            self._add_step(node, "QuantizeLinear", (get_name(source),), get_name(output))
        elif source.is_graph_input():
            self._add_step(node, "QuantizeLinear", (get_name(source),), get_name(output))
        else:
            return False
        return True

    def _is_requantizable(self, params: QuantParams) -> bool:
        wide = params.qtype.bits == _WIDE and "Requantize" in self.wide
        return params.axis is None and (params.qtype.bits == 8 or wide)

    def _read_dequantize(self, node: Node) -> bool:
        found = find_quantized_source(node.outputs[0])
        if found is None:
            return False
        self._add_tensor(found)
        if node.outputs[0].is_graph_output():
            self._add_dequantize(node.outputs[0], found)
        return True

    def _add_dequantize(self, value: Value, integers: QuantizedTensor) -> None:
        """Add the DequantizeLinear of integers that leave the graph, or that are requantized in float."""
        maker = value.producer()
        assert maker is not None
        if all(step.name != maker.name for step in self.steps):
            self._add_tensor(integers)
            source = (get_name(integers.integers),)
            self._add_step(maker, "DequantizeLinear", source, get_name(value))

    def _add_quantized_op(self, found: QuantizedOp) -> None:
        names: list[str | None] = []
        for operand in found.inputs:
            if isinstance(operand, QuantizedTensor):
                self._add_tensor(operand)
                names.append(get_name(operand.integers))
            else:
                names.append(self._add_operand(operand))
        outputs = []
        for value, output in zip(found.node.outputs, found.outputs, strict=True):
            if output is not None:
                self._add_tensor(output)
            outputs.append(output.integers if output else value)
        self._add_steps(found.node, found.spec, tuple(names), outputs)

    def _read_integer_op(self, node: Node) -> bool:
        """Read an operator that itself runs on integers, in a QOperator graph."""
        spec, first = OPS.get(get_spec_name(node)), node.inputs[0]
        if (
            spec is None
            or first is None
            or not (spec.qlinear is RUNS_ON_INTEGERS or spec.is_activation)
        ):
            return False
        params = self.params.get(get_name(first))
        if params is None and first.is_initializer():
            params = infer_qparams(first)
        # An Identity may give the integers other parameters.
        may_reinterpret = spec.op == "Identity"
        if params is None or not (
            _is_8bit_per_tensor(params) or (may_reinterpret and params.qtype.bits == 8)
        ):
            return False
        self.params[get_name(first)] = params
        self._add_operand(first)
        attrs = get_all_attributes(node)
        for key in SCALAR_INPUTS & attrs.keys():
            attrs[key] = params.dequantize(np.asarray(attrs[key]))
        keeps_integers = spec.output_rule is not OutputRule.NONE
        if keeps_integers:
            for value in node.outputs:
                inferred = infer_qparams(value) if may_reinterpret else None
                self.params[get_name(value)] = inferred or params
        names = tuple(
            self._add_operand(v)
            if spec.role_of(i) in (Role.KEEP, Role.VALUE)
            else get_name(v)
            if v
            else None
            for i, v in enumerate(node.inputs)
        )
        self._add_steps(node, spec, names, node.outputs, attrs, keeps_integers=keeps_integers)
        return True

    def _add_steps(
        self,
        node: Node,
        spec: OpSpec,
        inputs: tuple[str | None, ...],
        outputs: Sequence[Value],
        attrs: Mapping[str, Any] | None = None,
        *,
        keeps_integers: bool = False,
    ) -> None:
        assert node.name
        attrs = get_all_attributes(node) if attrs is None else attrs
        for index, output in enumerate(outputs):
            if output.uses() or output.is_graph_output():
                step = Step(
                    node.name, spec.op, attrs, inputs, (get_name(output),), index, keeps_integers,
                    self._bits_of(*(inputs if spec.output_rule is OutputRule.NONE else (get_name(output),))),
                )  # fmt: skip
                self.steps.append(step)

    def _read_qlinear(self, node: Node, spec: OpSpec, form: QLinearForm) -> bool:
        assert node.name
        operands = read_operands(node, form)
        if operands is None or explain_float_qlinear(node, spec, operands):
            return False
        name = get_name(node.outputs[0])
        if operands.output_qparams is not None:
            params = read_qparams(*operands.output_qparams, node.outputs[0])
            if params is None:
                return False
            self.params[name] = params
        elif spec.float_output_form is None:
            return False
        inputs = {i: self._add_triple(t, spec, i, node) for i, t in operands.triples.items()}
        inputs.update((i, self._add_operand(value)) for i, value in operands.biases.items())
        attrs = get_all_attributes(node)
        for extra in form.attrs or {}:
            attrs.pop(extra, None)
        names = tuple(inputs.get(i) for i in range(max(inputs) + 1))
        self.steps.append(Step(node.name, spec.op, attrs, names, (name,)))
        return True

    def _add_triple(
        self, triple: QuantizedOperand, spec: OpSpec, index: int, node: Node
    ) -> str | None:
        integers, scale, zero_point = triple
        axis = None
        if spec.role_of(index) is Role.WEIGHT:
            array = get_constant(integers)
            axis = get_channel_axis(node, array.ndim if array is not None else 2)
        params = read_qparams(scale, zero_point, integers, axis)
        if params is not None:
            self.params[get_name(integers)] = params
        return self._add_operand(integers)

    def _add_tensor(self, quantized: QuantizedTensor) -> None:
        self.params[get_name(quantized.integers)] = quantized.params
        self._add_operand(quantized.integers)

    def _add_operand(self, value: Value | None) -> str | None:
        if value is None:
            return None
        array = get_constant(value)
        if array is not None:
            self.constants[get_name(value)] = array
        return get_name(value)

    def _add_step(self, node: Node, op: str, inputs: tuple[str, ...], output: str) -> None:
        assert node.name
        bits = self._bits_of(*inputs, output)
        self.steps.append(Step(node.name, op, {}, inputs, (output,), bits=bits))

    def _bits_of(self, *names: str | None) -> int:
        """16 if the arithmetic has such kernels and one of the tensors has 16 bits."""
        found = (self.params.get(name) for name in names if name is not None)
        return _WIDE if self.wide and any(p and p.qtype.bits == _WIDE for p in found) else 8


def _is_8bit_per_tensor(params: QuantParams) -> bool:
    return params.axis is None and params.qtype.bits == 8


def _read_output_qparams(node: Node, integers: Value) -> QuantParams | None:
    zero_point = node.inputs[2] if len(node.inputs) > 2 else None
    axis = get_attributes(node).get("axis", 1)
    return read_qparams(node.inputs[1], zero_point, integers, axis)
