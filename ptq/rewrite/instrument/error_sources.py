"""The rounding of a quantized model split into its sources, each of which can be switched on and off.

A source is the rounding of one node's constants, or of one tensor. Two graphs are built from the float model.

* The first also outputs the error of each source. The error of constants is measured at the output of their node.
* The second has an input for the error to add to each tensor. With zeros it is the float model. With the sums of all
  errors it is the quantized model, except for the effect of rounding on later rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.opspec import RUNS_ON_INTEGERS, OutputRule
from ptq.core.plan import Plan
from ptq.core.types import QuantParams
from ptq.model.graph import Graph
from ptq.model.node import (
    Node,
    Value,
    get_attributes,
    get_constant,
    get_name,
    get_node_name,
    get_operator,
    get_shape,
    get_spec,
)
from ptq.rewrite.emit.allow_16_bits import allow_16_bits
from ptq.rewrite.emit.q_dq_nodes import QuantizerBuilder


@dataclass(frozen=True)
class ErrorSource:
    """One node's constants or one tensor that is rounded.

    Attributes:
        kind: ``weights`` for all constants of a node, or ``tensor``.
        tensor: The tensor that has the error: the rounded tensor, or the output of the node.
        node: The node that writes the tensor; empty for a graph input.
        float_nodes_needed: The nodes that must all be float to remove this rounding.
    """

    kind: str
    tensor: str
    node: str
    float_nodes_needed: frozenset[str]


@dataclass(frozen=True, eq=False)
class ErrorProbe:
    """The two graphs, and what belongs to them.

    Attributes:
        sources: All sources of rounding error.
        error_graph: The float model, which also outputs the error of each source.
        error_outputs: The names of these outputs, in the order of the sources.
        injected: The float model, with an input for the error to add to each tensor that has sources.
        inputs: By tensor, the name of this input.
        fused: By name, the nodes that can be float only together.
    """

    sources: tuple[ErrorSource, ...]
    error_graph: Graph
    error_outputs: tuple[str, ...]
    injected: Graph
    inputs: Mapping[str, str]
    fused: Mapping[str, frozenset[str]]


def build_error_probe(graph: Graph, plan: Plan, quantized: Graph) -> ErrorProbe:
    """Split the rounding of a quantized model into its sources.

    Args:
        graph: The prepared float model.
        plan: Its plan.
        quantized: The quantized model in QDQ form.
    """
    fused = _map_fused_groups(plan)
    sources: list[ErrorSource] = []
    errors, injected = graph.copy(), graph.copy()
    outputs = []
    by_name = {node.name: node for node in quantized.nodes}
    for node in errors.nodes:
        name = get_node_name(node)
        single = len(node.outputs) == 1
        rounded = _find_rounded_constants(node, by_name.get(name), plan) if single else {}
        if rounded and get_shape(node.outputs[0]) is not None:
            outputs.append(_insert_constants_error(errors, node, rounded))
            alone = fused.get(name, frozenset([name]))
            sources.append(ErrorSource("weights", get_name(node.outputs[0]), name, alone))
    places, readers = _map_places_by_name(errors), _map_integer_readers(graph, plan)
    for name in _list_rounded_tensors(graph, plan):
        value, writer = places[name]
        # A graph input needs a known rank.
        if get_shape(value) is not None:
            outputs.append(_insert_tensor_error(errors, value, writer, plan.tensors[name]))
            sources.append(_build_tensor_source(name, writer, readers, plan, fused))
    places = _map_places_by_name(injected)
    inputs = {
        tensor: _insert_error_input(injected, *places[tensor], plan)
        for tensor in dict.fromkeys(source.tensor for source in sources)
    }
    allow_16_bits(errors)
    errors.sort()
    errors.add_outputs(outputs)
    injected.sort()
    return ErrorProbe(tuple(sources), errors, tuple(outputs), injected, inputs, fused)


def _map_fused_groups(plan: Plan) -> dict[str, frozenset[str]]:
    together: dict[str, frozenset[str]] = {}
    pairs = [*plan.folded.items(), *((name, clamp.producer) for name, clamp in plan.clamps.items())]
    for activation, producer in pairs:
        both = frozenset([activation, producer]) | together.get(producer, frozenset())
        together.update(dict.fromkeys(both, both))
    return together


def _find_rounded_constants(
    node: Node, quantized: Node | None, plan: Plan
) -> dict[int, NDArray[Any]]:
    """By input position, the dequantized constants of the quantized node that differ from the float node's."""
    rounded: dict[int, NDArray[Any]] = {}
    is_float = node.name in plan.floats
    if quantized is None or (is_float and get_operator(node) != "Gather"):
        return rounded
    for position, value in enumerate(node.inputs):
        array = get_constant(value)
        if value is None or array is None:
            continue
        params = plan.operands.get((get_node_name(node), position))
        if params is None and not is_float:
            params = plan.tensors.get(get_name(value))
        other = quantized.inputs[position] if position < len(quantized.inputs) else None
        producer = other.producer() if other is not None else None
        quantizer_input = producer.inputs[0] if producer is not None else None
        # a float Gather reads the integers of its table itself
        integers = get_constant(other if is_float else quantizer_input)
        if params is None or integers is None:
            continue
        real = params.dequantize(integers).reshape(array.shape)
        if (real != array).any():
            rounded[position] = real
    return rounded


def _list_rounded_tensors(graph: Graph, plan: Plan) -> Iterator[str]:
    """The tensors whose values a quantizer changes; data movement of rounded values changes none."""
    integers = [node for node in graph.nodes if node.name not in plan.floats]
    read = {get_name(v) for node in integers for v in node.inputs if v is not None}
    written = {get_name(v): node for node in integers for v in node.outputs}
    fed = {get_name(v) for v in graph.inputs} | {
        get_name(v) for n in graph.nodes for v in n.outputs
    }
    for name in plan.tensors:
        if name not in fed or not (name in read or name in written):
            continue
        if name not in written or not _is_integer_preserving(written[name], plan):
            yield name


def _is_integer_preserving(node: Node, plan: Plan) -> bool:
    """Whether the node only outputs integers that it has read."""
    spec = get_spec(node)
    if spec is None:
        return False
    if not (
        spec.qlinear is RUNS_ON_INTEGERS
        or spec.is_activation
        or spec.output_rule is OutputRule.ONE_GROUP
    ):
        return False
    before = [plan.tensors.get(get_name(v)) for v in node.inputs if v is not None]
    after = [plan.tensors.get(get_name(v)) for v in node.outputs]
    read = [params for params in before if params is not None]
    return bool(read) and all(params == read[0] for params in (*read, *after))


def _map_places_by_name(graph: Graph) -> dict[str, tuple[Value, Node | None]]:
    """By name, the inputs of a graph and all computed tensors, each with the node that writes it."""
    made = {get_name(v): (v, node) for node in graph.nodes for v in node.outputs}
    return {**made, **{get_name(v): (v, None) for v in graph.inputs}}


def _map_integer_readers(graph: Graph, plan: Plan) -> dict[str, list[Node]]:
    """By tensor, the integer nodes that read it."""
    readers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for value in node.inputs:
            if value is not None and node.name not in plan.floats:
                readers.setdefault(get_name(value), []).append(node)
    return readers


def _build_tensor_source(
    name: str,
    writer: Node | None,
    readers: Mapping[str, Sequence[Node]],
    plan: Plan,
    fused: Mapping[str, frozenset[str]],
) -> ErrorSource:
    needed: set[str] = set()
    if writer is not None and writer.name not in plan.floats:
        needed.add(get_node_name(writer))
    frontier = [name]
    while frontier:
        for reader in readers.get(frontier.pop(), ()):
            if reader.name not in needed and _is_integer_preserving(reader, plan):
                frontier += [get_name(v) for v in reader.outputs]
            needed.add(get_node_name(reader))
    needed = needed.union(*(fused.get(n, frozenset()) for n in needed))
    written_by = get_node_name(writer) if writer is not None else ""
    return ErrorSource("tensor", name, written_by, frozenset(needed))


def _insert_constants_error(graph: Graph, node: Node, rounded: Mapping[int, NDArray[Any]]) -> str:
    """Compute a node a second time with the rounded constants; the name of the difference."""
    inputs: list[Value | None] = list(node.inputs)
    for position, array in rounded.items():
        inputs[position] = graph.add_constant(array, f"{node.name}_{position}_rounded")
    output = node.outputs[0]
    other = graph.insert(
        get_operator(node),
        inputs,
        after=node,
        attrs=get_attributes(node),
        output=f"{output.name}_rounded",
    )
    return _insert_difference(graph, other, output)


def _insert_tensor_error(
    graph: Graph, value: Value, writer: Node | None, params: QuantParams
) -> str:
    """Quantize and dequantize a tensor, without a change for its readers; the name of the difference."""
    first = None if writer is not None else graph.nodes[0]
    quantizers, name = QuantizerBuilder(graph), get_name(value)
    integers = quantizers.quantize(value, params, before=first, after=writer)
    pair = quantizers.qparam_initializers(params, name)
    real = quantizers.dequantize(integers, *pair, params, hint=name, after=integers.producer())
    return _insert_difference(graph, real, value)


def _insert_difference(graph: Graph, rounded: Value, real: Value) -> str:
    error = graph.insert(
        "Sub", [rounded, real], after=rounded.producer(), output=f"{real.name}_error"
    )
    error.type, error.shape = real.type, real.shape
    return get_name(error)


def _insert_error_input(graph: Graph, value: Value, writer: Node | None, plan: Plan) -> str:
    """Add a graph input to a tensor, for the readers of the rounded tensor; the input's name."""
    name = get_name(value)
    by_integers = writer is not None and writer.name not in plan.floats
    readers = [use for use in value.uses() if by_integers or use.node.name not in plan.floats]
    error = graph.add_constant(np.zeros((), np.float32), f"{name}_error")
    first = None if writer is not None else graph.nodes[0]
    total = graph.insert("Add", [value, error], before=first, after=writer, output=f"{name}_sum")
    total.type, total.shape = value.type, value.shape
    for use in readers:
        use.node.replace_input_with(use.idx, total)
    shape = get_shape(value)
    assert shape is not None
    if by_integers and value.is_graph_output():
        graph.replace_output(value, total)
    graph.make_input(error, len(shape))
    return get_name(error)
