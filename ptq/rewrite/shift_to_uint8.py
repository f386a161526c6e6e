"""int8 tensors → uint8 tensors: q + 128 with zero point z + 128 has the same real values.

    (q + 128) − (z + 128) = q − z

Three selections of tensors have three reasons:

* Pairs. Before ONNX Runtime on x86 chooses kernels, it shifts int8 activations to uint8. It does so where one
  DequantizeLinear with one reader follows a QuantizeLinear. It leaves a tensor alone that is also a graph output, and
  computes its neighbours in float. A tensor whose integers are to be read must therefore be shifted first.
* Activations. ONNX Runtime's QLinear operators need all activations in one type. NNCF uses uint8 behind a ReLU and
  int8 elsewhere; with uint8 everywhere these operators exist. int8 activations do not combine with uint8 weights
  either.
* Weights. Without VNNI, ONNX Runtime's kernels for uint8 × int8 saturate sums of two products in int16; those for
  uint8 × uint8 do not. With VNNI, uint8 weights give the same integers at about half the speed.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ptq.core.ops import QLINEAR_FORMS
from ptq.core.opspec import Role
from ptq.core.types import IntArray
from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    Value,
    get_constant,
    get_dtype,
    get_name,
    get_onnx_operator,
    get_operator,
    get_spec,
    is_constant,
    list_consumers,
    require_constant,
)
from ptq.model.qdq.qdq_units import (
    QuantizedOp,
    QuantizedTensor,
    find_quantized_source,
    match_supported_qdq_op,
)
from ptq.model.qdq.qlinear_inputs import list_input_positions
from ptq.rewrite.imported.deduplicate_quantizers import deduplicate_quantizers

_OFFSET = 128
_INT8, _UINT8 = np.dtype(np.int8), np.dtype(np.uint8)


def to_uint8(q: IntArray) -> IntArray:
    """Integers of an int8 tensor after the shift."""
    return (q.astype(np.int16) + _OFFSET).astype(np.uint8)


def to_int8(q: IntArray) -> IntArray:
    """Integers of a shifted tensor before the shift."""
    return (q.astype(np.int16) - _OFFSET).astype(np.int8)


def shift_pairs_to_uint8(graph: Graph) -> tuple[Graph, frozenset[str]]:
    """A copy of the graph in which the int8 tensors that ONNX Runtime would shift are uint8.

    Returns:
        The graph, without duplicate quantizers, and the names of the shifted tensors.
    """
    shifted = graph.copy()
    return shifted, shift_pairs(shifted)


def shift_pairs(graph: Graph) -> frozenset[str]:
    """Do so in place; the names of the shifted tensors."""
    # Of several equal quantizers ONNX Runtime keeps one, and not always the first.
    deduplicate_quantizers(graph)
    names = set()
    for node in graph.nodes:
        reader = find_shifted_pair_reader(node)
        if reader is not None:
            _shift_inputs(graph, [(node, 2), (reader, 2)])
            integers = node.outputs[0]
            integers.type = reader.inputs[2].type if reader.inputs[2] is not None else None
            names.add(get_name(integers))
    graph.remove_unused()
    return frozenset(names)


def find_shifted_pair_reader(node: Node) -> Node | None:
    """The DequantizeLinear after a QuantizeLinear if ONNX Runtime shifts the pair; else None."""
    if get_onnx_operator(node) != "QuantizeLinear" or node.outputs[0].is_graph_output():
        return None
    readers = list_consumers(node.outputs[0])
    if len(readers) != 1 or get_onnx_operator(readers[0]) != "DequantizeLinear":
        return None
    real = readers[0].outputs[0]
    if len(list(real.uses())) + real.is_graph_output() != 1:
        return None
    return readers[0] if _has_int8_zero_point(node) and _has_int8_zero_point(readers[0]) else None


def shift_activations_to_uint8(graph: Graph) -> Graph:
    """A graph with all int8 activations in uint8 if an operator mixes the types; else the graph itself."""
    ops = [found for node in graph.nodes if (found := match_supported_qdq_op(node)) is not None]
    if not any(map(_has_mixed_signedness, ops)):
        return graph
    shifted = graph.copy()
    constants = _list_constant_activations(shifted)
    for node in shifted.nodes:
        if get_operator(node) != "QuantizeLinear" or node.outputs[0].is_graph_output():
            continue
        readers = list_consumers(node.outputs[0])
        quantizers = [node, *readers]
        if all(map(_has_int8_zero_point, quantizers)) and all(
            get_operator(reader) == "DequantizeLinear" for reader in readers
        ):
            _shift_inputs(shifted, [(quantizer, 2) for quantizer in quantizers])
            node.outputs[0].type = node.inputs[2].type if node.inputs[2] is not None else None
    for node in constants:
        if _has_int8_zero_point(node):
            _shift_inputs(shifted, [(node, 0), (node, 2)])
    shifted.remove_unused()
    return shifted


def shift_weights_to_uint8(graph: Graph) -> Graph:
    """A copy of the graph, QDQ or QOperator, with the int8 weights of uint8 activations in uint8."""
    shifted = graph.copy()
    constants: dict[str, Value] = {}
    for node in shifted.nodes:
        found = find_int8_weight(node)
        if found is not None:
            reader, integers, scale, zero_point = found
            _add_zero_point(shifted, reader, scale, zero_point)
            _shift_inputs(shifted, [(reader, integers), (reader, zero_point)], constants)
    shifted.remove_unused()
    return shifted


def find_int8_weight(node: Node) -> tuple[Node, int, int, int] | None:
    """The constant int8 weight of an operator whose activation ONNX Runtime computes in uint8.

    Returns:
        The node that reads the integers, and the positions there of integers, scale and zero point. None if the
        weight is unsigned or computed, or if the activation is int8.
    """
    op = get_operator(node)
    if op in QLINEAR_FORMS and QLINEAR_FORMS[op][0].role_of(1) is Role.WEIGHT:
        at = list_input_positions(QLINEAR_FORMS[op][1])
        zero_point = node.inputs[at["0z"]]
        signed = zero_point is None or get_dtype(zero_point) != _UINT8
        place = (node, at["1q"], at["1s"], at["1z"])
    elif (spec := get_spec(node)) and spec.role_of(1) is Role.WEIGHT and len(node.inputs) > 1:
        x, w = find_quantized_source(node.inputs[0]), find_quantized_source(node.inputs[1])
        weight = node.inputs[1].producer() if node.inputs[1] is not None else None
        if x is None or w is None or weight is None:
            return None
        writer = x.integers.producer()
        shifted = writer is not None and find_shifted_pair_reader(writer) is not None
        signed = x.params.qtype.signed and not shifted
        place = (weight, 0, 1, 2)
    else:
        return None
    array = get_constant(place[0].inputs[place[1]])
    return None if signed or array is None or array.dtype != _INT8 else place


def _shift_inputs(
    graph: Graph, places: Iterable[tuple[Node, int]], constants: dict[str, Value] | None = None
) -> None:
    """Replace int8 constants by uint8 constants.

    Args:
        graph: The graph, changed in place.
        places: Nodes with the position of the input.
        constants: Shifted constants by the name of the int8 constant, to be shared; None for a new one each time.
    """
    for node, position in places:
        value = node.inputs[position]
        array = get_constant(value)
        assert value is not None and array is not None
        name = get_name(value)
        shifted = None if constants is None else constants.get(name)
        if shifted is None:
            shifted = graph.add_constant(to_uint8(array), f"{name}_unsigned")
        if constants is not None:
            constants[name] = shifted
        node.replace_input_with(position, shifted)


def _add_zero_point(graph: Graph, node: Node, scale: int, zero_point: int) -> None:
    """Add a zero point 0 of int8 if the node has none, with as many elements as the scale."""
    scales = require_constant(node.inputs[scale])
    if len(node.inputs) <= zero_point:
        node.resize_inputs(zero_point + 1)
    if node.inputs[zero_point] is None:
        zeros = graph.add_constant(np.zeros(scales.shape, np.int8), f"{node.name}_zero_point")
        node.replace_input_with(zero_point, zeros)


def _has_int8_zero_point(quantizer: Node) -> bool:
    array = get_constant(quantizer.inputs[2]) if len(quantizer.inputs) > 2 else None
    return array is not None and array.dtype == _INT8 and array.size == 1


def _has_mixed_signedness(op: QuantizedOp) -> bool:
    """Whether an operator has activations of both types, or int8 activations and a uint8 weight."""
    signs: dict[Role, set[bool]] = {Role.ACTIVATION: set(), Role.WEIGHT: set(), Role.BIAS: set()}
    for position, operand in enumerate(op.inputs):
        if isinstance(operand, QuantizedTensor):
            signs[op.spec.role_of(position)].add(operand.params.qtype.signed)
    activations = signs[Role.ACTIVATION]
    activations |= {output.params.qtype.signed for output in op.outputs if output is not None}
    return len(activations) == 2 or (activations == {True} and False in signs[Role.WEIGHT])


def _list_constant_activations(graph: Graph) -> list[Node]:
    found: dict[Node, None] = {}
    for node in graph.nodes:
        op = match_supported_qdq_op(node)
        if op is None:
            continue
        for position, value in enumerate(node.inputs):
            maker = value.producer() if value is not None else None
            if maker is None or op.spec.role_of(position) is not Role.ACTIVATION:
                continue
            if get_operator(maker) == "DequantizeLinear" and is_constant(maker.inputs[0]):
                found[maker] = None
    return list(found)
