"""A QDQ graph as a list of operators on integers and on floats, with the quantizers that stand between them.

Weights keep their integers. A tensor has one name for each of its forms: the float one, and the integer one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.core.opset_changes import ATTRIBUTES_NOW_INPUTS
from ptq.core.targets import WIDE_LITERT_OPS
from ptq.core.types import QuantParams
from ptq.model.graph import Graph
from ptq.model.node import (
    QUANTIZERS,
    Node,
    Value,
    get_constant,
    get_name,
    get_node_name,
    get_operator,
    get_spec_name,
    require_constant,
)
from ptq.model.qdq.qdq_units import (
    QuantizedOp,
    QuantizedTensor,
    find_quantized_source,
    get_all_attributes,
    match_supported_qdq_op,
    read_quantizer,
)

FUSED = "fused_activation"
"""Attribute of an operation: LiteRT's name of its fused activation."""
CLAMPS = {(0.0, np.inf): "RELU", (0.0, 6.0): "RELU6", (-1.0, 1.0): "RELU_N1_TO_1"}
"""LiteRT's names of clamps, by their bounds."""


@dataclass(frozen=True, eq=False)
class Operation:
    """One operator.

    Attributes:
        op: Name of its row: the ONNX operator, with the mode for a Resize, or ``QuantizeLinear``,
            ``DequantizeLinear`` or ``Requantize``.
        name: Name of its node.
        attrs: Its ONNX attributes, and constant operands that were attributes in older opsets.
        inputs: Names of its inputs; None for an absent one.
        outputs: Names of its outputs.
        is_integer: Whether it computes on integers.
    """

    op: str
    name: str
    attrs: Mapping[str, Any]
    inputs: tuple[str | None, ...]
    outputs: tuple[str, ...]
    is_integer: bool


@dataclass(frozen=True, eq=False)
class OperationList:
    """A QDQ graph as operators.

    Attributes:
        operations: The operators, each after those that write its inputs.
        params: Scale and zero point of integer tensors and constants, by name.
        constants: Arrays of constants, by name.
        inputs: Names of the graph's inputs.
        outputs: Names of the graph's outputs.
    """

    operations: list[Operation] = field(default_factory=list)
    params: dict[str, QuantParams] = field(default_factory=dict)
    constants: dict[str, NDArray[Any]] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()

    @cached_property
    def makers(self) -> Mapping[str, Operation]:
        """The operator that writes a value, by the value's name."""
        return {output: o for o in self.operations for output in o.outputs}


def find_given_bounds(listed: OperationList, clip: Operation) -> tuple[Any, Any] | None:
    """The bounds of a Clip in its own type, each None where it is absent; None if one is computed."""
    found: list[Any] = []
    for position, name in ATTRIBUTES_NOW_INPUTS["Clip"].items():
        operand = clip.inputs[position] if position < len(clip.inputs) else None
        given = clip.attrs.get(name)
        if given is None and operand is not None:
            given = listed.constants.get(operand)
            if given is None:
                return None
        found.append(None if given is None or np.size(given) == 0 else np.reshape(given, ()))
    return found[0], found[1]


def list_operations(
    graph: Graph,
    fixed: Mapping[str, NDArray[Any]],
    grows: Collection[str],
    has_integer_form: Callable[[str], bool],
) -> OperationList:
    """List the operators of a QDQ graph.

    Args:
        graph: The graph.
        has_integer_form: Whether LiteRT has an operator on integers; others compute in float between quantizers.
        fixed: Values that depend on no input's values, by name. They become constants.
        grows: Names of those that change with the batch; the nodes that compute them are left out.

    Raises:
        UnsupportedError: An activation has no type of 8 bits, or per-channel scales.
    """
    reader = _Reader(graph, fixed, grows, has_integer_form)
    for node in graph.nodes:
        if all(get_name(value) in fixed for value in node.outputs if value.name):
            continue
        reader.read(node)
    for value in graph.outputs:
        reader.find_float(value)
    found = reader.found
    return OperationList(
        found.operations,
        found.params,
        found.constants,
        tuple(get_name(value) for value in graph.inputs),
        tuple(get_name(value) for value in graph.outputs),
    )


class _Reader:
    def __init__(
        self,
        graph: Graph,
        fixed: Mapping[str, NDArray[Any]],
        grows: Collection[str],
        has_integer_form: Callable[[str], bool],
    ) -> None:
        self._has_integer_form = has_integer_form
        self.found = OperationList()
        self._fixed = fixed
        self._grows = frozenset(grows)
        self._made = {get_name(value) for value in graph.inputs}

    def read(self, node: Node) -> None:
        op = get_operator(node)
        if op == "DequantizeLinear":
            return
        if op == "QuantizeLinear":
            if get_name(node.outputs[0]) not in self._made:  # else it ends an operator on integers
                self._read_quantizer(node)
            return
        unit = match_supported_qdq_op(node)
        if unit is None and get_spec_name(node) in WIDE_LITERT_OPS:
            unit = match_supported_qdq_op(node, 16)
        if unit is None or unit.has_float_output or not self._has_integer_form(unit.spec.op):
            self._read_float(node)
        else:
            self._read_integer(unit)

    def _read_quantizer(self, node: Node) -> None:
        source, output = node.inputs[0], node.outputs[0]
        quantized = read_quantizer(node, output)
        if quantized is None or source is None:
            raise UnsupportedError(
                f"quantizer {node.name} computes its scale; LiteRT needs constant scales"
            )
        before = find_quantized_source(source)
        if get_constant(source) is not None:
            array = require_constant(source)
            self.found.constants[get_name(output)] = quantized.params.quantize(array)
            self.found.params[get_name(output)] = quantized.params
        elif before is not None:
            self._add(node, "Requantize", (self._tensor(before),), (self._tensor(quantized),), True)
        else:
            reads = (self.find_float(source),)
            self._add(node, "QuantizeLinear", reads, (self._tensor(quantized),), False)

    def _read_integer(self, unit: QuantizedOp) -> None:
        inputs = [
            self._tensor(operand) if isinstance(operand, QuantizedTensor) else self._plain(operand)
            for operand in unit.inputs
        ]
        outputs = [
            self._tensor(output) if output is not None else get_name(value)
            for value, output in zip(unit.node.outputs, unit.outputs, strict=True)
        ]
        self._add(unit.node, unit.spec.op, tuple(inputs), tuple(outputs), True)

    def _read_float(self, node: Node) -> None:
        inputs = tuple(None if v is None else self.find_float(v) for v in node.inputs)
        outputs = tuple(get_name(value) if value.name else "" for value in node.outputs)
        self._add(node, get_spec_name(node), inputs, outputs, False)

    def find_float(self, value: Value) -> str:
        """The name of a value as its reader sees it; adds a DequantizeLinear before it if there is none yet."""
        name = get_name(value)
        if name in self._made or name in self.found.constants:
            return name
        source = find_quantized_source(value)
        if source is None:
            return self._plain(value) or name
        integers = get_constant(source.integers)
        if integers is None:
            integers = self._fixed.get(get_name(source.integers))
        if integers is not None:
            self.found.constants[name] = source.params.dequantize(integers)
            return name
        maker = value.producer()
        assert maker is not None
        self._add(maker, "DequantizeLinear", (self._tensor(source),), (name,), False)
        return name

    def _plain(self, value: Value | None) -> str | None:
        """The name of a value that is not quantized; a constant is kept."""
        if value is None:
            return None
        name = get_name(value)
        array = get_constant(value)
        if array is None and name not in self._grows:
            array = self._fixed.get(name)
        if array is not None:
            self.found.constants[name] = array
        return name

    def _tensor(self, quantized: QuantizedTensor) -> str:
        name = self._plain(quantized.integers)
        assert name is not None
        self.found.params[name] = quantized.params
        return name

    def _add(
        self,
        node: Node,
        op: str,
        inputs: tuple[str | None, ...],
        outputs: tuple[str, ...],
        is_integer: bool,
    ) -> None:
        self._made.update(outputs)
        attrs = {} if op in QUANTIZERS else get_all_attributes(node)
        self.found.operations.append(
            Operation(op, get_node_name(node), attrs, inputs, outputs, is_integer)
        )
