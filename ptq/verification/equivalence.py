"""Proof that two quantized graphs compute the same integers, from their steps and without running them.

Every tensor gets a digest of its definition:

- constant: its integers;
- input: its name;
- result of an operator: operator, attributes, parameters, and the digests of its inputs;
- function of one 8-bit integer: its 256 values, so that a Relu equals a Clip of the same integers.

Names of tensors do not matter.
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
from ptq.executor.arithmetics import get_kernels
from ptq.executor.arithmetics.node_site import Site
from ptq.executor.float_islands import FloatIsland
from ptq.executor.program import Program, Step
from ptq.executor.program_reader import read_program
from ptq.kernels.lookup import list_values
from ptq.model.graph import Graph
from ptq.model.node import Node, get_attributes, get_constant, get_name, get_operator
from ptq.rewrite.imported.normalize_qdq import normalize_qdq

Digest = str
_KERNELS = get_kernels("ort")
_TABLE_OPS = ("Clip", "LeakyRelu", "Relu", "Requantize", "Sigmoid")
# attributes that only one form has, with the value that the other form implies
_DEFAULT_ATTRIBUTES: Mapping[str, Any] = {"channels_last": 0, "beta": 1.0}


def find_first_difference(one: Graph, other: Graph) -> str | None:
    """Name of the first output that differs between two graphs with equal output names; None if all are equal."""
    digests, other_digests = _compute_digests(one), _compute_digests(other)
    names = [get_name(value) for value in one.outputs]
    return next((name for name in names if digests.get(name) != other_digests.get(name)), None)


def _compute_digests(graph: Graph) -> dict[str, Digest]:
    program = read_program(normalize_qdq(graph), _KERNELS.__contains__)
    digests = {name: _digest("input", name) for name in program.inputs}
    for name, array in program.constants.items():
        digests[name] = _digest("constant", *_to_hashable(array))
    for step in program.steps:
        if isinstance(step, FloatIsland):
            _digest_island(step, digests)
        else:
            content = _get_step_content(step, program, digests)
            digests.update({name: _digest(step.output_index, *content) for name in step.outputs})
    return digests


def _digest(*content: object) -> Digest:
    return hashlib.sha256(repr(content).encode()).hexdigest()


def _to_hashable(value: Any) -> tuple[object, ...]:
    """Content of an array or attribute as values that repr writes completely."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, (list, tuple)):
        return tuple(value)
    return (str(value),)


def _to_hashable_params(params: QuantParams | None) -> tuple[object, ...]:
    if params is None:
        return ()
    zeros = np.broadcast_to(params.zero_point, params.scale.shape)
    return params.qtype, params.axis, params.scale.tobytes(), zeros.tobytes()


def _get_step_content(
    step: Step, program: Program, digests: Mapping[str, Digest]
) -> tuple[object, ...]:
    output_params = [_to_hashable_params(program.params.get(name)) for name in step.outputs]
    table = _compute_lookup_table(step, program)
    if table is not None:
        return "table", table, digests.get(step.inputs[0] or ""), output_params
    spec = OPS.get(step.op)
    read: list[tuple[object, ...]] = []
    for position, name in enumerate(step.inputs):
        role = spec.role_of(position) if spec is not None else Role.KEEP
        if role is Role.VALUE or name is None:
            continue  # the value is an attribute of the step
        if role is Role.BIAS and name in program.constants:
            read.append((position, _digest_bias(program.constants[name]), ()))
            continue
        params = () if role is Role.BIAS else _to_hashable_params(program.params.get(name))
        read.append((position, digests.get(name), params))
    return step.op, _list_attributes(step, program), read, output_params


def _digest_bias(array: NDArray[Any]) -> Digest:
    """Digest of one value for each column; a single value equals many equal values."""
    columns = array.reshape(-1)
    return _digest(
        "bias", *_to_hashable(columns[:1] if np.all(columns == columns[:1]) else columns)
    )


def _list_attributes(step: Step, program: Program) -> list[tuple[str, object]]:
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
    return sorted((name, _to_hashable(value)) for name, value in attrs.items())


def _compute_lookup_table(step: Step, program: Program) -> bytes | None:
    """256 values of a function of one 8-bit integer; None for other steps."""
    source = program.params.get(step.inputs[0] or "")
    if step.op not in _TABLE_OPS or source is None or source.qtype.bits != 8:
        return None
    target = program.params.get(step.outputs[0])
    site = Site(step.op, step.attrs, (source,), (target,))
    values = list_values(source.qtype).astype(source.qtype.dtype)
    return _KERNELS[step.op](site)([values]).tobytes()


def _digest_island(island: FloatIsland, digests: dict[str, Digest]) -> None:
    inside = {name: digests.get(name, name) for name in island.inputs}
    for node in island.graph.nodes:
        read = [_get_value_content(node, position, inside) for position in range(len(node.inputs))]
        if get_operator(node) == "Identity" and isinstance(read[0], str):
            inside[get_name(node.outputs[0])] = read[0]  # another name or type of the same value
            continue
        attrs = sorted((name, _to_hashable(value)) for name, value in get_attributes(node).items())
        for position, value in enumerate(node.outputs):
            inside[get_name(value)] = _digest(position, get_operator(node), attrs, read)
    digests.update({name: inside[name] for name in island.outputs})


def _get_value_content(node: Node, position: int, inside: Mapping[str, Digest]) -> object:
    value = node.inputs[position]
    array = get_constant(value)
    if value is None:
        return None
    return (
        _to_hashable(array) if array is not None else inside.get(get_name(value), get_name(value))
    )
