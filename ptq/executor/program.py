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
from ptq.core.opset_changes import SCALARS
from ptq.core.opspec import PASSES, OpSpec, Output, QLinear, Role
from ptq.core.types import QuantParams
from ptq.executor.float_islands import Island, islands
from ptq.executor.schedule import ordered
from ptq.model.axes import channel_axis
from ptq.model.graph import Graph
from ptq.model.inferred_qparams import meant
from ptq.model.node import (
    QUANTIZERS,
    Node,
    Value,
    attributes,
    constant,
    name_of,
    operator,
    row_name,
)
from ptq.model.qdq_units import Quantized, Unit, all_attributes, dequantized, params_of, unit
from ptq.model.qlinear_inputs import Triple, operands_of, peculiarity


@dataclass(frozen=True, eq=False)
class Step:
    """One operator on integers.

    Attributes:
        name: Its node's name.
        op: Its row's name, or ``Requantize`` for a DequantizeLinear → QuantizeLinear.
        attrs: ONNX attributes, and what newer opsets moved to inputs.
        inputs: Names of tensors and constants, None where absent.
        outputs: Name of the tensor; an operator with several outputs is a step for each that is read.
        position: That of the output among the operator's.
        raw: It hands integers on as they are, whatever they mean before and after.
    """

    name: str
    op: str
    attrs: Mapping[str, Any]
    inputs: tuple[str | None, ...]
    outputs: tuple[str, ...]
    position: int = 0
    raw: bool = False


@dataclass(frozen=True, eq=False)
class Program:
    """A quantized graph as steps.

    Attributes:
        steps: In order.
        params: What the integers of a tensor or constant mean.
        constants: Arrays by name.
        inputs: Names of the graph's inputs.
        outputs: Names of its outputs.
    """

    steps: tuple[Step | Island, ...]
    params: Mapping[str, QuantParams]
    constants: Mapping[str, NDArray[Any]]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


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
    found = islands(graph, [n for n in strays if operator(n) not in QUANTIZERS])
    steps = ordered([*reader.steps, *found])
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
    runs: Callable[[str], bool]
    floats: Collection[str]
    steps: list[Step | Island] = field(default_factory=list)
    params: dict[str, QuantParams] = field(default_factory=dict)
    constants: dict[str, NDArray[Any]] = field(default_factory=dict)

    def read(self, node: Node) -> bool:
        """Take the node as a step; False where it belongs to an island or to another step."""
        op = operator(node)
        if op == "QuantizeLinear":
            return self._quantize(node)
        if op == "DequantizeLinear":
            return self._dequantize(node)
        if op in QLINEAR_FORMS:
            return self._qlinear(node, *QLINEAR_FORMS[op])
        runs = self.runs(row_name(node))
        found = unit(node) if runs else None
        if found is not None and self._is_float(found):
            return False
        if found is not None:
            self._unit(found)
            return True
        return runs and self._on_integers(node)

    def _is_float(self, found: Unit) -> bool:
        if found.real:
            return name_of(found.node.outputs[0]) in self.floats
        outputs = (output for output in found.outputs if output is not None)
        return any(name_of(output.integers) in self.floats for output in outputs)

    def _quantize(self, node: Node) -> bool:
        source, output = node.inputs[0], node.outputs[0]
        assert source is not None
        meaning = _meaning(node, output)
        if meaning is None:
            return False
        self.params[name_of(output)] = meaning
        before = dequantized(source)
        if before is not None and _one_byte(before.params) and _one_byte(meaning):
            self._tensor(before)
            self._step(node, "Requantize", (name_of(before.integers),), name_of(output))
        elif before is not None:
            self._real(source, before)
            self._step(node, "QuantizeLinear", (name_of(source),), name_of(output))
        elif source.is_graph_input():
            self._step(node, "QuantizeLinear", (name_of(source),), name_of(output))
        else:
            return False
        return True

    def _dequantize(self, node: Node) -> bool:
        found = dequantized(node.outputs[0])
        if found is None:
            return False
        self._tensor(found)
        if node.outputs[0].is_graph_output():
            self._real(node.outputs[0], found)
        return True

    def _real(self, value: Value, integers: Quantized) -> None:
        """The real reading of integers that leave the graph, or that have more than 8 bits."""
        maker = value.producer()
        assert maker is not None
        if all(step.name != maker.name for step in self.steps):
            self._tensor(integers)
            source = (name_of(integers.integers),)
            self._step(maker, "DequantizeLinear", source, name_of(value))

    def _unit(self, found: Unit) -> None:
        names: list[str | None] = []
        for operand in found.inputs:
            if isinstance(operand, Quantized):
                self._tensor(operand)
                names.append(name_of(operand.integers))
            else:
                names.append(self._plain(operand))
        outputs = []
        for value, output in zip(found.node.outputs, found.outputs, strict=True):
            if output is not None:
                self._tensor(output)
            outputs.append(output.integers if output else value)
        self._steps(found.node, found.spec, tuple(names), outputs)

    def _on_integers(self, node: Node) -> bool:
        """An operator that stands on integers itself, in a QOperator graph."""
        spec, first = OPS.get(row_name(node)), node.inputs[0]
        if spec is None or first is None or not (spec.qlinear is PASSES or spec.activation):
            return False
        meaning = self.params.get(name_of(first))
        if meaning is None and first.is_initializer():
            meaning = meant(first)
        renames = spec.op == "Identity"  # and may give the integers another meaning
        if meaning is None or not (_one_byte(meaning) or (renames and meaning.qtype.bits == 8)):
            return False
        self.params[name_of(first)] = meaning
        self._plain(first)
        attrs = all_attributes(node)
        for key in SCALARS & attrs.keys():
            attrs[key] = meaning.dequantize(np.asarray(attrs[key]))
        moves = spec.output is not Output.NONE
        if moves:
            for value in node.outputs:
                self.params[name_of(value)] = (meant(value) if renames else None) or meaning
        names = tuple(
            self._plain(v) if spec.role(i) in (Role.KEEP, Role.VALUE) else name_of(v) if v else None
            for i, v in enumerate(node.inputs)
        )
        self._steps(node, spec, names, node.outputs, attrs, raw=moves)
        return True

    def _steps(
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

    def _qlinear(self, node: Node, spec: OpSpec, form: QLinear) -> bool:
        assert node.name
        operands = operands_of(node, form)
        if operands is None or peculiarity(node, spec, operands):
            return False
        name = name_of(node.outputs[0])
        if operands.output is not None:
            meaning = params_of(*operands.output, node.outputs[0])
            if meaning is None:
                return False
            self.params[name] = meaning
        elif spec.real is None:
            return False
        inputs = {i: self._triple(t, spec, i, node) for i, t in operands.triples.items()}
        inputs.update((i, self._plain(value)) for i, value in operands.biases.items())
        attrs = all_attributes(node)
        for extra in form.attrs or {}:
            attrs.pop(extra, None)
        names = tuple(inputs.get(i) for i in range(max(inputs) + 1))
        self.steps.append(Step(node.name, spec.op, attrs, names, (name,)))
        return True

    def _triple(self, triple: Triple, spec: OpSpec, index: int, node: Node) -> str | None:
        integers, scale, zero_point = triple
        axis = None
        if spec.role(index) is Role.WEIGHT:
            array = constant(integers)
            axis = channel_axis(node, array.ndim if array is not None else 2)
        meaning = params_of(scale, zero_point, integers, axis)
        if meaning is not None:
            self.params[name_of(integers)] = meaning
        return self._plain(integers)

    def _tensor(self, quantized: Quantized) -> None:
        self.params[name_of(quantized.integers)] = quantized.params
        self._plain(quantized.integers)

    def _plain(self, value: Value | None) -> str | None:
        if value is None:
            return None
        array = constant(value)
        if array is not None:
            self.constants[name_of(value)] = array
        return name_of(value)

    def _step(self, node: Node, op: str, inputs: tuple[str, ...], output: str) -> None:
        assert node.name
        self.steps.append(Step(node.name, op, {}, inputs, (output,)))


def _one_byte(params: QuantParams) -> bool:
    return params.axis is None and params.qtype.bits == 8


def _meaning(node: Node, integers: Value) -> QuantParams | None:
    zero_point = node.inputs[2] if len(node.inputs) > 2 else None
    axis = attributes(node).get("axis", 1)
    return params_of(node.inputs[1], zero_point, integers, axis)
