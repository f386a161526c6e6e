"""Takes a quantized model's rounding apart into its sources, each of which can be switched.

A source is the rounding of one node's constants, or of one tensor on its way between nodes. Of the float model two
graphs are made. The first also puts out what each source adds to a tensor; that of constants is taken to where
their node writes. The second is given what to add to each tensor: the float model where that is 0 and, but for
what rounding does to rounding further on, the quantized one where it is the sum of all that the first puts out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from ptq.core.ops import OPS
from ptq.core.opspec import RUNS_ON_INTEGERS, OutputRule
from ptq.core.plan import Plan
from ptq.model.graph import Graph
from ptq.model.node import Node, Value, attributes_of, constant_of, name_of, operator_of, shape_of
from ptq.rewrite.emit.q_dq_nodes import QuantizerBuilder


@dataclass(frozen=True)
class ErrorSource:
    """One place where something is rounded.

    Attributes:
        kind: ``weights``, all of a node's constants, or ``tensor``.
        tensor: Where its error shows: the tensor that is rounded, or the output of the node.
        node: The node that writes the tensor; empty for an input of the graph.
        touching: The nodes that must all be float for the rounding to vanish.
    """

    kind: str
    tensor: str
    node: str
    float_nodes_needed: frozenset[str]


@dataclass(frozen=True, eq=False)
class ErrorProbe:
    """The two graphs.

    Attributes:
        sources: All of them.
        errors: The float model, which also puts out what each source adds.
        added: The names of these outputs, in the order of the sources.
        given: The float model, with an input for what to add to each tensor at which sources show.
        inputs: The name of that input, by tensor.
        fused: Nodes that stay float only together, by name.
    """

    sources: tuple[ErrorSource, ...]
    error_graph: Graph
    error_outputs: tuple[str, ...]
    injected: Graph
    inputs: Mapping[str, str]
    fused: Mapping[str, frozenset[str]]


def build_error_probe(graph: Graph, plan: Plan, quantized: Graph) -> ErrorProbe:
    """Take a quantized model apart.

    Args:
        graph: The prepared float model.
        plan: Its plan.
        quantized: What was made of both, with quantizers (form ``qdq``).
    """
    fused = _fused_groups(plan)
    sources: list[ErrorSource] = []
    errors, given = graph.copy(), graph.copy()
    added = []
    made = {node.name: node for node in quantized.nodes}
    for node in errors.nodes:
        name = node.name or ""
        rounded = _rounded_constants(node, made.get(name), plan) if len(node.outputs) == 1 else {}
        if rounded and shape_of(node.outputs[0]) is not None:
            added.append(_error_of_constants(errors, node, rounded))
            alone = fused.get(name, frozenset([name]))
            sources.append(ErrorSource("weights", name_of(node.outputs[0]), name, alone))
    for name in _rounded_tensors(graph, plan):
        if (
            shape_of(_find_value(graph, name)[0]) is not None
        ):  # what is fed must say its number of axes
            added.append(_error_of_tensor(errors, name, plan))
            sources.append(_tensor_source(graph, name, plan, fused))
    inputs, ranks = {}, {}
    for tensor in dict.fromkeys(source.tensor for source in sources):
        inputs[tensor], rank = _insert_error_input(given, tensor, plan)
        ranks[inputs[tensor]] = rank
    errors.sort()
    errors.add_outputs(added)
    given.sort()
    return ErrorProbe(
        tuple(sources), errors, tuple(added), _initializers_to_inputs(given, ranks), inputs, fused
    )


def _fused_groups(plan: Plan) -> dict[str, frozenset[str]]:
    together: dict[str, frozenset[str]] = {}
    pairs = [*plan.folded.items(), *((name, clamp.producer) for name, clamp in plan.clamps.items())]
    for activation, producer in pairs:
        both = frozenset([activation, producer]) | together.get(producer, frozenset())
        together.update(dict.fromkeys(both, both))
    return together


def _rounded_constants(node: Node, twin: Node | None, plan: Plan) -> dict[int, NDArray[Any]]:
    """By input position, a node's constants as the quantized model has them, where they differ."""
    rounded: dict[int, NDArray[Any]] = {}
    if twin is None or node.name in plan.floats:
        return rounded
    for position, value in enumerate(node.inputs):
        array = constant_of(value)
        if value is None or array is None:
            continue
        params = plan.operands.get((node.name or "", position)) or plan.tensors.get(name_of(value))
        after = twin.inputs[position] if position < len(twin.inputs) else None
        producer = after.producer() if after is not None else None
        integers = constant_of(producer.inputs[0]) if producer is not None else None
        if params is None or integers is None:
            continue
        real = params.dequantize(integers).reshape(array.shape)
        if (real != array).any():
            rounded[position] = real
    return rounded


def _rounded_tensors(graph: Graph, plan: Plan) -> Iterator[str]:
    """The tensors whose values a quantizer changes; what is only moved is rounded already."""
    integers = [node for node in graph.nodes if node.name not in plan.floats]
    read = {name_of(v) for node in integers for v in node.inputs if v is not None}
    written = {name_of(v): node for node in integers for v in node.outputs}
    fed = {name_of(v) for v in graph.inputs} | {name_of(v) for n in graph.nodes for v in n.outputs}
    for name in plan.tensors:
        if name not in fed or not (name in read or name in written):
            continue
        if name not in written or not _is_integer_preserving(written[name], plan):
            yield name


def _is_integer_preserving(node: Node, plan: Plan) -> bool:
    """Whether all that the node puts out are integers that it has read."""
    spec = OPS.get(operator_of(node))
    if spec is None:
        return False
    if not (
        spec.qlinear is RUNS_ON_INTEGERS
        or spec.is_activation
        or spec.output_rule is OutputRule.ONE_GROUP
    ):
        return False
    before = [plan.tensors.get(name_of(v)) for v in node.inputs if v is not None]
    after = [plan.tensors.get(name_of(v)) for v in node.outputs]
    known = [params for params in before if params is not None]
    return bool(known) and all(params == known[0] for params in (*known, *after))


def _tensor_source(
    graph: Graph, name: str, plan: Plan, fused: Mapping[str, frozenset[str]]
) -> ErrorSource:
    writers = {name_of(v): node for node in graph.nodes for v in node.outputs}
    readers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for value in node.inputs:
            if value is not None and node.name not in plan.floats:
                readers.setdefault(name_of(value), []).append(node)
    writer = writers.get(name)
    touching: set[str] = set()
    if writer is not None and writer.name not in plan.floats:
        touching.add(writer.name or "")
    frontier = [name]
    while frontier:
        for reader in readers.get(frontier.pop(), ()):
            if reader.name not in touching and _is_integer_preserving(reader, plan):
                frontier += [name_of(v) for v in reader.outputs]
            touching.add(reader.name or "")
    whole = touching.union(*(fused.get(n, frozenset()) for n in touching))
    return ErrorSource(
        "tensor", name, (writer.name or "") if writer is not None else "", frozenset(whole)
    )


def _error_of_constants(graph: Graph, node: Node, rounded: Mapping[int, NDArray[Any]]) -> str:
    """Compute a node a second time with other constants; the name of the difference."""
    inputs: list[Value | None] = list(node.inputs)
    for position, array in rounded.items():
        inputs[position] = graph.add_constant(array, f"{node.name}_{position}_rounded")
    output = node.outputs[0]
    other = graph.insert(
        operator_of(node),
        inputs,
        after=node,
        attrs=attributes_of(node),
        output=f"{output.name}_rounded",
    )
    return _insert_difference(graph, other, output)


def _error_of_tensor(graph: Graph, name: str, plan: Plan) -> str:
    """Quantize and dequantize a tensor beside its readers; the name of the difference."""
    value, writer = _find_value(graph, name)
    first = None if writer is not None else graph.nodes[0]
    quantizers, params = QuantizerBuilder(graph), plan.tensors[name]
    integers = quantizers.quantize(value, params, before=first, after=writer)
    pair = quantizers.qparam_initializers(params, name)
    real = quantizers.dequantize(integers, *pair, params, hint=name, after=integers.producer())
    return _insert_difference(graph, real, value)


def _insert_difference(graph: Graph, rounded: Value, real: Value) -> str:
    made = graph.insert(
        "Sub", [rounded, real], after=rounded.producer(), output=f"{real.name}_error"
    )
    made.type, made.shape = real.type, real.shape
    return name_of(made)


def _insert_error_input(graph: Graph, name: str, plan: Plan) -> tuple[str, int]:
    """Add a constant to a tensor, for readers that would read it rounded; its name and number of axes."""
    value, writer = _find_value(graph, name)
    by_integers = writer is not None and writer.name not in plan.floats
    readers = [use for use in value.uses() if by_integers or use.node.name not in plan.floats]
    added = graph.add_constant(np.zeros((), np.float32), f"{name}_error")
    first = None if writer is not None else graph.nodes[0]
    total = graph.insert("Add", [value, added], before=first, after=writer, output=f"{name}_sum")
    total.type, total.shape = value.type, value.shape
    for use in readers:
        use.node.replace_input_with(use.idx, total)
    shape = shape_of(value)
    assert shape is not None
    if by_integers and value.is_graph_output():
        graph.replace_output(value, total)
    return name_of(added), len(shape)


def _find_value(graph: Graph, name: str) -> tuple[Value, Node | None]:
    for value in graph.inputs:
        if name_of(value) == name:
            return value, None
    return next((v, node) for node in graph.nodes for v in node.outputs if v.name == name)


def _initializers_to_inputs(graph: Graph, ranks: Mapping[str, int]) -> Graph:
    """The graph with some initializers for inputs, float32 with so many axes of any length."""

    def change(proto: onnx.ModelProto) -> onnx.ModelProto:
        kept = [tensor for tensor in proto.graph.initializer if tensor.name not in ranks]
        del proto.graph.initializer[:]
        proto.graph.initializer.extend(kept)
        for index in reversed(range(len(proto.graph.input))):
            if proto.graph.input[index].name in ranks:
                del proto.graph.input[index]
        for name, rank in ranks.items():
            proto.graph.input.append(
                onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None] * rank)
            )
        return proto

    return graph.transform_proto(change, ranks)
