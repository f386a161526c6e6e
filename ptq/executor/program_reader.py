"""Reads a quantized graph, QDQ or QOperator, as a sequence of integer steps.

Between steps no tensor is real: what a runtime computes in float between a DequantizeLinear and a
QuantizeLinear is one step, an island, that takes integers and gives integers.
"""

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
from ptq.executor.program import Program, Step
from ptq.executor.schedule import sort_topologically
from ptq.model.axes import channel_axis
from ptq.model.graph import Graph
from ptq.model.inferred_qparams import infer_qparams
from ptq.model.node import (
    QUANTIZERS,
    Node,
    Value,
    attributes_of,
    constant_of,
    name_of,
    operator_of,
    spec_name,
)
from ptq.model.qdq_units import (
    QuantizedOp,
    QuantizedTensor,
    all_attributes,
    qparams_of,
    quantized_op,
    quantized_source,
)
from ptq.model.qlinear_inputs import QuantizedOperand, qlinear_unsupported_reason, read_operands


def read_program(
    graph: Graph, runs: Callable[[str], bool], floats: Collection[str] = ()
) -> Program:
    """Read a quantized graph.

    Args:
        graph: QDQ, QOperator, or a mixture.
        runs: Whether the arithmetic has a kernel for an operator; those without are islands.
        floats: Integer tensors, and real results of products of them, whose operators are islands all the same.
    """
    reader = _Reader(graph, runs, floats)
    strays: list[Node] = []
    for node in graph.nodes:
        if not reader.read(node):
            strays.append(node)
    found = extract_islands(graph, [n for n in strays if operator_of(n) not in QUANTIZERS])
    steps = sort_topologically([*reader.steps, *found])
    return Program(
        steps=tuple(steps),
        params=reader.params,
        constants=reader.constants,
        inputs=tuple(name_of(v) for v in graph.inputs),
        outputs=tuple(name_of(v) for v in graph.outputs),
    )


@dataclass
class _Reader:
    graph: Graph
    has_kernel: Callable[[str], bool]
    float_tensors: Collection[str]
    steps: list[Step | FloatIsland] = field(default_factory=list)
    params: dict[str, QuantParams] = field(default_factory=dict)
    constants: dict[str, NDArray[Any]] = field(default_factory=dict)

    def read(self, node: Node) -> bool:
        """Take the node as a step; False where it belongs to an island or to another step."""
        op = operator_of(node)
        if op == "QuantizeLinear":
            return self._read_quantize(node)
        if op == "DequantizeLinear":
            return self._read_dequantize(node)
        if op in QLINEAR_FORMS:
            return self._read_qlinear(node, *QLINEAR_FORMS[op])
        runs = self.has_kernel(spec_name(node))
        found = quantized_op(node) if runs else None
        if found is not None and self._is_forced_float(found):
            return False
        if found is not None:
            self._add_quantized_op(found)
            return True
        return runs and self._read_integer_op(node)

    def _is_forced_float(self, found: QuantizedOp) -> bool:
        if found.has_float_output:
            return name_of(found.node.outputs[0]) in self.float_tensors
        outputs = (output for output in found.outputs if output is not None)
        return any(name_of(output.integers) in self.float_tensors for output in outputs)

    def _read_quantize(self, node: Node) -> bool:
        source, output = node.inputs[0], node.outputs[0]
        assert source is not None
        meaning = _output_qparams(node, output)
        if meaning is None:
            return False
        self.params[name_of(output)] = meaning
        before = quantized_source(source)
        if (
            before is not None
            and _is_8bit_per_tensor(before.params)
            and _is_8bit_per_tensor(meaning)
        ):
            self._add_tensor(before)
            self._add_step(node, "Requantize", (name_of(before.integers),), name_of(output))
        elif before is not None:
            self._add_dequantize(source, before)
            self._add_step(node, "QuantizeLinear", (name_of(source),), name_of(output))
        elif source.is_graph_input():
            self._add_step(node, "QuantizeLinear", (name_of(source),), name_of(output))
        else:
            return False
        return True

    def _read_dequantize(self, node: Node) -> bool:
        found = quantized_source(node.outputs[0])
        if found is None:
            return False
        self._add_tensor(found)
        if node.outputs[0].is_graph_output():
            self._add_dequantize(node.outputs[0], found)
        return True

    def _add_dequantize(self, value: Value, integers: QuantizedTensor) -> None:
        """The real reading of integers that leave the graph, or that have more than 8 bits."""
        maker = value.producer()
        assert maker is not None
        if all(step.name != maker.name for step in self.steps):
            self._add_tensor(integers)
            source = (name_of(integers.integers),)
            self._add_step(maker, "DequantizeLinear", source, name_of(value))

    def _add_quantized_op(self, found: QuantizedOp) -> None:
        names: list[str | None] = []
        for operand in found.inputs:
            if isinstance(operand, QuantizedTensor):
                self._add_tensor(operand)
                names.append(name_of(operand.integers))
            else:
                names.append(self._add_operand(operand))
        outputs = []
        for value, output in zip(found.node.outputs, found.outputs, strict=True):
            if output is not None:
                self._add_tensor(output)
            outputs.append(output.integers if output else value)
        self._add_steps(found.node, found.spec, tuple(names), outputs)

    def _read_integer_op(self, node: Node) -> bool:
        """An operator that stands on integers itself, in a QOperator graph."""
        spec, first = OPS.get(spec_name(node)), node.inputs[0]
        if (
            spec is None
            or first is None
            or not (spec.qlinear is RUNS_ON_INTEGERS or spec.is_activation)
        ):
            return False
        meaning = self.params.get(name_of(first))
        if meaning is None and first.is_initializer():
            meaning = infer_qparams(first)
        renames = spec.op == "Identity"  # and may give the integers another meaning
        if meaning is None or not (
            _is_8bit_per_tensor(meaning) or (renames and meaning.qtype.bits == 8)
        ):
            return False
        self.params[name_of(first)] = meaning
        self._add_operand(first)
        attrs = all_attributes(node)
        for key in SCALAR_INPUTS & attrs.keys():
            attrs[key] = meaning.dequantize(np.asarray(attrs[key]))
        moves = spec.output_rule is not OutputRule.NONE
        if moves:
            for value in node.outputs:
                self.params[name_of(value)] = (infer_qparams(value) if renames else None) or meaning
        names = tuple(
            self._add_operand(v)
            if spec.role_of(i) in (Role.KEEP, Role.VALUE)
            else name_of(v)
            if v
            else None
            for i, v in enumerate(node.inputs)
        )
        self._add_steps(node, spec, names, node.outputs, attrs, raw=moves)
        return True

    def _add_steps(
        self,
        node: Node,
        spec: OpSpec,
        inputs: tuple[str | None, ...],
        outputs: Sequence[Value],
        attrs: Mapping[str, Any] | None = None,
        *,
        raw: bool = False,
    ) -> None:
        """A step for each output that anybody reads."""
        assert node.name
        attrs = all_attributes(node) if attrs is None else attrs
        for position, output in enumerate(outputs):
            if output.uses() or output.is_graph_output():
                step = Step(node.name, spec.op, attrs, inputs, (name_of(output),), position, raw)
                self.steps.append(step)

    def _read_qlinear(self, node: Node, spec: OpSpec, form: QLinearForm) -> bool:
        assert node.name
        operands = read_operands(node, form)
        if operands is None or qlinear_unsupported_reason(node, spec, operands):
            return False
        name = name_of(node.outputs[0])
        if operands.output_qparams is not None:
            meaning = qparams_of(*operands.output_qparams, node.outputs[0])
            if meaning is None:
                return False
            self.params[name] = meaning
        elif spec.float_output_form is None:
            return False
        inputs = {i: self._add_triple(t, spec, i, node) for i, t in operands.triples.items()}
        inputs.update((i, self._add_operand(value)) for i, value in operands.biases.items())
        attrs = all_attributes(node)
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
            array = constant_of(integers)
            axis = channel_axis(node, array.ndim if array is not None else 2)
        meaning = qparams_of(scale, zero_point, integers, axis)
        if meaning is not None:
            self.params[name_of(integers)] = meaning
        return self._add_operand(integers)

    def _add_tensor(self, quantized: QuantizedTensor) -> None:
        self.params[name_of(quantized.integers)] = quantized.params
        self._add_operand(quantized.integers)

    def _add_operand(self, value: Value | None) -> str | None:
        if value is None:
            return None
        array = constant_of(value)
        if array is not None:
            self.constants[name_of(value)] = array
        return name_of(value)

    def _add_step(self, node: Node, op: str, inputs: tuple[str, ...], output: str) -> None:
        assert node.name
        self.steps.append(Step(node.name, op, {}, inputs, (output,)))


def _is_8bit_per_tensor(params: QuantParams) -> bool:
    return params.axis is None and params.qtype.bits == 8


def _output_qparams(node: Node, integers: Value) -> QuantParams | None:
    zero_point = node.inputs[2] if len(node.inputs) > 2 else None
    axis = attributes_of(node).get("axis", 1)
    return qparams_of(node.inputs[1], zero_point, integers, axis)
