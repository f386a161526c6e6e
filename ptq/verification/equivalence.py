"""Do two quantized graphs compute the same integers? Proved from their steps, without running them.

Every tensor gets a digest of what it is: of the integers of a constant, of the name of an input, and of an operator
with its attributes, parameters and the digests of what it reads. Functions of one 8-bit integer are digested as
their 256 values, so that Relu and a Clip of integers are seen to be one. Names of tensors do not count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.ops import OPS
from ptq.core.opspec import Role
from ptq.core.types import QuantParams
from ptq.executor.arithmetics import kernels_of_arithmetic
from ptq.executor.arithmetics.node_site import Site
from ptq.executor.float_islands import FloatIsland
from ptq.executor.program import Program, Step
from ptq.executor.program_reader import read_program
from ptq.kernels.lookup import every_value
from ptq.model.graph import Graph
from ptq.model.node import Node, attributes_of, constant_of, name_of, operator_of
from ptq.rewrite.imported.normalize_qdq import normalize_qdq

Digest = str
_KERNELS = kernels_of_arithmetic("ort")
_TABLE_OPS = ("Clip", "LeakyRelu", "Relu", "Requantize", "Sigmoid")
# what only one form has, where it says what the other means by leaving it out
_DEFAULT_ATTRIBUTES: Mapping[str, Any] = {"channels_last": 0, "beta": 1.0}


def first_difference(one: Graph, other: Graph) -> str | None:
    """The first output by which two graphs with outputs of the same names differ; None where all are equal."""
    ours, theirs = (_digests(graph) for graph in (one, other))
    names = [name_of(value) for value in one.outputs]
    return next((name for name in names if ours.get(name) != theirs.get(name)), None)


def _digests(graph: Graph) -> dict[str, Digest]:
    program = read_program(normalize_qdq(graph), _KERNELS.__contains__)
    known = {name: _digest("input", name) for name in program.inputs}
    for name, array in program.constants.items():
        known[name] = _digest("constant", *_hashable(array))
    for step in program.steps:
        if isinstance(step, FloatIsland):
            _digest_island(step, known)
        else:
            content = _step_content(step, program, known)
            for position, name in enumerate(step.outputs):
                known[name] = _digest(position, *content)
    return known


def _digest(*parts: object) -> Digest:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _hashable(value: Any) -> tuple[object, ...]:
    """An array or attribute as what repr tells whole."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, (list, tuple)):
        return tuple(value)
    return (str(value),)


def _params(params: QuantParams | None) -> tuple[object, ...]:
    if params is None:
        return ()
    zeros = np.broadcast_to(params.zero_point, params.scale.shape)
    return params.qtype, params.axis, params.scale.tobytes(), zeros.tobytes()


def _step_content(step: Step, program: Program, known: Mapping[str, Digest]) -> tuple[object, ...]:
    """What a step computes, but for which of its outputs."""
    produced = [_params(program.params.get(name)) for name in step.outputs]
    table = _lookup_table(step, program)
    if table is not None:
        return "table", table, known.get(step.inputs[0] or ""), produced
    spec = OPS.get(step.op)
    read: list[tuple[object, ...]] = []
    for position, name in enumerate(step.inputs):
        role = spec.role_of(position) if spec is not None else Role.KEEP
        if role is Role.VALUE or name is None:
            continue  # its value is an attribute
        if role is Role.BIAS and name in program.constants:
            read.append((position, _digest_bias(program.constants[name]), ()))
            continue
        params = () if role is Role.BIAS else _params(program.params.get(name))
        read.append((position, known.get(name), params))
    return step.op, _attributes(step, program), read, produced


def _digest_bias(array: NDArray[Any]) -> Digest:
    """The values a column; one for all is the same as many that are equal."""
    columns = array.reshape(-1)
    return _digest("bias", *_hashable(columns[:1] if np.all(columns == columns[:1]) else columns))


def _attributes(step: Step, program: Program) -> list[tuple[str, object]]:
    attrs = {
        name: value
        for name, value in step.attrs.items()
        if name != "opset"
        and not (name in _DEFAULT_ATTRIBUTES and value == _DEFAULT_ATTRIBUTES[name])
    }
    if step.op == "Pad":
        params = program.params.get(step.inputs[0] or "")
        value = np.asarray(attrs.pop("value", 0.0), np.float32).reshape(())
        attrs["value"] = value if params is None else params.quantize(value)
    return sorted((name, _hashable(value)) for name, value in attrs.items())


def _lookup_table(step: Step, program: Program) -> bytes | None:
    """The values of a function of one 8-bit integer; None for other steps."""
    source = program.params.get(step.inputs[0] or "")
    if step.op not in _TABLE_OPS or source is None or source.qtype.bits != 8:
        return None
    made = program.params.get(step.outputs[0])
    site = Site(step.op, step.attrs, (source,), (made,))
    every = every_value(source.qtype).astype(source.qtype.dtype)
    return _KERNELS[step.op](site)([every]).tobytes()


def _digest_island(island: FloatIsland, known: dict[str, Digest]) -> None:
    inside = {name: known.get(name, name) for name in island.inputs}
    for node in island.graph.nodes:
        read = [_value_content(node, position, inside) for position in range(len(node.inputs))]
        if operator_of(node) == "Identity" and isinstance(read[0], str):
            inside[name_of(node.outputs[0])] = read[0]  # another name, or meaning, of the same
            continue
        attrs = sorted((name, _hashable(value)) for name, value in attributes_of(node).items())
        for position, value in enumerate(node.outputs):
            inside[name_of(value)] = _digest(position, operator_of(node), attrs, read)
    known.update({name: inside[name] for name in island.outputs})


def _value_content(node: Node, position: int, inside: Mapping[str, Digest]) -> object:
    value = node.inputs[position]
    array = constant_of(value)
    if value is None:
        return None
    return _hashable(array) if array is not None else inside.get(name_of(value), name_of(value))
