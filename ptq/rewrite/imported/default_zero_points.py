"""What does an operand of a QLinear operator leave out that a quantizer has to be told?"""

from __future__ import annotations

import numpy as np

from ptq.core.errors import UnsupportedError
from ptq.core.opspec import OpSpec, Role
from ptq.core.types import QuantParams
from ptq.model.axes import channel_axis
from ptq.model.graph import Graph
from ptq.model.node import Node, Value, constant, dtype_of, name_of, operator, shape_of
from ptq.model.qdq_units import params_of
from ptq.model.qlinear_inputs import Triple


def complete(graph: Graph, triple: Triple) -> Triple:
    """The operand with a zero point, and as many scales as zero points."""
    integers, scale, zero_point = triple
    scales, zeros = constant(scale), constant(zero_point)
    if scales is None or (zero_point is not None and zeros is None):
        return triple
    name = name_of(integers)
    if zeros is None:
        zeros = np.zeros(scales.shape, dtype_of(integers) or np.uint8)
        return integers, scale, graph.add_constant(zeros, f"{name}_zero_point")
    if scales.size == zeros.size:
        return triple
    scales, zeros = np.broadcast_arrays(scales.reshape(-1), zeros.reshape(-1))
    return (
        integers,
        graph.add_constant(scales.copy(), f"{name}_scale"),
        graph.add_constant(zeros.copy(), f"{name}_zero_point"),
    )


def completed(
    graph: Graph, output: tuple[Value, Value | None], first: Triple
) -> tuple[Value, Value | None]:
    """The output's parameters; without a zero point it has the type of the first operand."""
    scale, zero_point = output
    zeros = constant(first[2])
    if zero_point is not None or zeros is None:
        return output
    return scale, graph.add_constant(np.zeros((), zeros.dtype), f"{name_of(scale)}_zero_point")


def params_at(integers: Value, scale: Value, zero_point: Value | None, node: Node) -> QuantParams:
    """The parameters of an operand.

    Raises:
        UnsupportedError: They are computed, or in blocks.
    """
    if constant(scale) is None or (zero_point is not None and constant(zero_point) is None):
        raise UnsupportedError(
            f"{operator(node)} {node.name} computes a scale or zero point; they must be constant"
        )
    params = params_of(scale, zero_point, integers)
    if params is None:
        raise UnsupportedError(f"{operator(node)} {node.name} has scales in blocks")
    return params


def weight_axis(spec: OpSpec, index: int, triple: Triple, node: Node) -> int | None:
    """The channel axis of an operand with several scales; it is not written in a QLinear form.

    Raises:
        UnsupportedError: The weight's rank is unknown.
    """
    scales = constant(triple[1])
    if scales is None or scales.size == 1 or spec.role(index) is not Role.WEIGHT:
        return None
    array = constant(triple[0])
    shape = array.shape if array is not None else shape_of(triple[0])
    if shape is None:
        raise UnsupportedError(f"{operator(node)} {node.name} has a weight of unknown rank")
    return channel_axis(node, len(shape))
