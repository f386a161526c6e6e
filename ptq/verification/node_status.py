"""Node by node, what of a quantized graph runs on integers, and why the rest must stay float."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ptq.core.ops import OPS, QLINEAR_FORMS
from ptq.core.opspec import OpSpec, Output, QLinear, Role
from ptq.executor.arithmetics import arithmetic
from ptq.executor.float_islands import Island
from ptq.executor.program import read_program
from ptq.model.graph import Graph
from ptq.model.node import (
    QUANTIZERS,
    Node,
    Value,
    attributes,
    constant,
    consumers,
    dtype_of,
    name_of,
    operator,
    row_name,
)
from ptq.model.qdq_units import between_quantizers, dequantized, obstacle, requantized
from ptq.model.qlinear_inputs import operands_of, peculiarity
from ptq.rewrite.imported.normalize_qdq import adopt


@dataclass(frozen=True)
class Fate:
    """What becomes of one node of a quantized graph.

    Attributes:
        node: Its name.
        op: Its operator.
        runs: ``integer``; ``float``, between a DequantizeLinear and a QuantizeLinear or beyond all of
            them; ``index``, on shapes and indices; ``folded``, its work being done by a neighbour.
        why: The reason where it is not integer.
    """

    node: str
    op: str
    runs: Literal["integer", "float", "index", "folded"]
    why: str = ""


def fates(graph: Graph, arithmetic_name: str = "ort") -> tuple[Fate, ...]:
    """The fate of every node but the quantizers, in the graph's order.

    Raises:
        UsageError: There is no such arithmetic.
    """
    kernels = arithmetic(arithmetic_name)
    adopted = adopt(graph)
    program = read_program(adopted, kernels.__contains__)
    integers = {step.name for step in program.steps if not isinstance(step, Island)}
    floats = {node.name: node for node in adopted.nodes if node.name not in integers}
    found = []
    for node in graph.nodes:
        op, name = operator(node), node.name or ""
        read = op if name not in floats else operator(floats[name])
        if op in QUANTIZERS or read in QUANTIZERS:
            continue
        if name in integers:
            found.append(Fate(name, op, "integer"))
        elif name in floats and _counts(floats[name]):
            found.append(Fate(name, op, "index", "shapes, indices or conditions, never quantized"))
        elif name in floats:
            why = why_float(floats[name], kernels.__contains__)
            found.append(Fate(name, op, "float", f"must stay float: {why}"))
        else:
            found.append(Fate(name, op, "folded", "a neighbour does its work"))
    return tuple(found)


def _counts(node: Node) -> bool:
    """Whether a node gives integers or truth values that no quantizer made."""
    types = [dtype_of(value) for value in node.outputs]
    return all(dtype in (np.int32, np.int64, np.bool_) for dtype in types)


def why_float(node: Node, runs: Callable[[str], bool]) -> str:
    """Why a node cannot run on integers."""
    op = operator(node)
    if op in QLINEAR_FORMS:
        return _why_of_its_own(node, *QLINEAR_FORMS[op])
    spec = OPS.get(row_name(node))
    if spec is None or not runs(op):
        return f"{op} has no integer kernel in this arithmetic"
    operands = [(spec.role(i), v) for i, v in enumerate(node.inputs) if v is not None]
    reasons = [_why_no_operand(role, value) for role, value in operands if role is not Role.BIAS]
    if spec.output is not Output.NONE:
        reasons += [_why_no_output(value) for value in node.outputs]
    # last: a bias becomes integers with all else, so that it is never the first cause
    reasons += [_why_no_operand(role, value) for role, value in operands if role is Role.BIAS]
    found = between_quantizers(node)
    if found is not None:
        reasons.append(obstacle(found))
    return next(
        (reason for reason in reasons if reason),
        "its attributes or constants have no integer form in this arithmetic",
    )


def _why_of_its_own(node: Node, spec: OpSpec, form: QLinear) -> str:
    """Why a QLinear operator is left to its runtime."""
    operands = operands_of(node, form)
    if operands is None:
        return "it lacks an input"
    found = peculiarity(node, spec, operands)
    return found or "its scales or zero points are not constants that a kernel takes"


def _why_no_operand(role: Role, value: Value) -> str:
    """Why an input is not the integers that its role asks for; nothing where it is."""
    if role in (Role.KEEP, Role.VALUE):
        return ""
    what, found = f"{role.value} {name_of(value)}", dequantized(value)
    if found is None:
        return f"{what} {_why_real(value)}"
    if found.params.qtype.bits != (32 if role is Role.BIAS else 8):
        return f"{what} is {found.params.qtype.name}"
    return ""


def _why_real(value: Value) -> str:
    """Why no integers stand behind a real value."""
    maker = value.producer()
    if maker is None or "DequantizeLinear" not in operator(maker):
        return "is a float constant" if constant(value) is not None else "is computed in float"
    return _why_unread(maker, maker.inputs[0])


def _why_no_output(value: Value) -> str:
    """Why a real result does not become integers of 8 bits; nothing where it does."""
    what, found = f"output {name_of(value)}", requantized(value)
    if found is not None:
        if found.params.qtype.bits != 8:
            return f"{what} is {found.params.qtype.name}"
        return ""
    if value.is_graph_output():
        return f"{what} is an output of the model in float"
    readers = consumers(value)
    quantizers = [node for node in readers if "QuantizeLinear" in operator(node)]
    if not quantizers:
        return f"{what} meets no QuantizeLinear"
    if len(readers) > 1:
        return f"{what} has {len(readers)} readers, not one QuantizeLinear alone"
    return f"{what} {_why_unread(quantizers[0], quantizers[0].outputs[0])}"


def _why_unread(quantizer: Node, integers: Value | None) -> str:
    """What about a quantizer is beyond 8-bit integers with constant scales along at most one axis."""
    scales = constant(quantizer.inputs[1])
    if scales is None:
        return "has a scale that is computed at run time"
    if scales.ndim > 1 or attributes(quantizer).get("block_size", 0):
        return "is quantized in blocks"
    if scales.dtype.name != "float32":
        return f"has a scale of {scales.dtype.name}"
    kind = integers.dtype.name.lower() if integers is not None and integers.dtype else "unknown"
    return f"is quantized as {kind}"
