"""The precision of every node for a target: quantized, or float with the reason. It needs no data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from ptq.core.opspec import Role
from ptq.core.target import Target
from ptq.model.graph import Graph
from ptq.model.node import Node, get_name, get_node_name, get_operator, get_spec, list_consumers
from ptq.model.qdq.qdq_units import has_float_result
from ptq.solver.partition.cost_model import GraphCosts
from ptq.solver.partition.float_layers import find_layers_faster_in_float
from ptq.solver.partition.node_precision import (
    NodeVerdict,
    QuantizedNode,
    assess_for_target,
    assess_nodes,
)
from ptq.solver.partition.normalization_pattern import find_normalization_nodes
from ptq.solver.partition.partition import find_nodes_faster_in_float
from ptq.solver.partition.residual_sums import find_inputs_added_by_kernels
from ptq.solver.partition.shipped_tables import describe_measured_runtime, get_cost_table

_FLOAT_NEIGHBOURS = "neighbours are float; quantize/dequantize would cost more than int8 saves"


@dataclass(frozen=True, eq=False)
class PrecisionAssignment:
    """The precision of every node of the main graph.

    Attributes:
        quantized_nodes: Nodes that will be quantized, by name, in graph order.
        float_nodes: All other nodes, with the reason.
        fused_activations: Activation nodes whose work the requantization of their producer may do, with that
            producer.
        float_outputs: Outputs of quantized nodes that stay float: their kernels return float, and no integer node
            reads them as integers.
    """

    quantized_nodes: Mapping[str, QuantizedNode]
    float_nodes: Mapping[str, str]
    fused_activations: Mapping[str, str]
    float_outputs: frozenset[str] = frozenset()


class Eligibility:
    """What a graph and a target decide on every node, whichever nodes are asked to stay float."""

    def __init__(
        self, graph: Graph, target: Target, assessed: Iterable[tuple[Node, NodeVerdict]]
    ) -> None:
        """Assess every node for the target.

        Args:
            graph: A prepared graph, shapes inferred.
            target: The target to quantize for.
            assessed: Its nodes, assessed by `assess_nodes`.
        """
        self._graph, self._target = graph, target
        self._verdicts = [(node, assess_for_target(node, own, target)) for node, own in assessed]
        table = get_cost_table(target)
        self._costs = None if table is None else GraphCosts(graph, table)

    def assign(self, skip: Mapping[str, str]) -> PrecisionAssignment:
        """Decide for every node whether it is quantized or stays float.

        Args:
            skip: Names of nodes, or operators, to keep float, with the reason.
        """
        graph, target = self._graph, self._target
        integers: dict[str, QuantizedNode] = {}
        floats: dict[str, str] = {}
        for node, verdict in self._verdicts:
            assert node.name
            keys = (key for key in (node.name, get_operator(node)) if key in skip)
            decided = next((skip[key] for key in keys), verdict)
            if isinstance(decided, str):
                floats[node.name] = decided
            else:
                integers[node.name] = decided
        if target.has_lookup_tables:
            _fall_back_to_float(integers, floats, _find_activations_after_float(integers, floats))
        if not target.integer_normalizations:
            _fall_back_to_float(integers, floats, self._find_normalizations(integers))
        if not target.follows_litert_spec:
            slower = _find_slower_on_integers(graph, integers, target, self._costs)
            _fall_back_to_float(integers, floats, slower)
            specs = {name: quantized.spec for name, quantized in integers.items()}
            _fall_back_to_float(integers, floats, find_layers_faster_in_float(graph, specs, target))
        if target.quantizes_inputs_only:
            added = _leave_added_inputs_float(graph, integers, target)
            _fall_back_to_float(integers, floats, added)
        outputs = frozenset(_list_unread_float_outputs(integers, target))
        return PrecisionAssignment(
            integers, floats, dict(_list_fused_activations(integers)), outputs
        )

    def _find_normalizations(self, integers: Mapping[str, QuantizedNode]) -> dict[str, str]:
        reason = "part of a normalization: 8 bits cannot hold its moments"
        return {name: reason for name in integers if name in self._normalizations}

    @cached_property
    def _normalizations(self) -> frozenset[str]:
        return find_normalization_nodes(self._graph)


def assign_precision(
    graph: Graph,
    target: Target,
    skip: Mapping[str, str] | None = None,
    refused: Mapping[str, str] | None = None,
) -> PrecisionAssignment:
    """Decide for every node whether it is quantized or stays float.

    Args:
        graph: A prepared graph, shapes inferred.
        target: The target to quantize for.
        skip: Names of nodes, or operators, to keep float, with the reason.
        refused: Names of tensors that cannot be quantized, with the reason.
    """
    return Eligibility(graph, target, assess_nodes(graph, refused or {})).assign(skip or {})


def _fall_back_to_float(
    integers: dict[str, QuantizedNode], floats: dict[str, str], reasons: Mapping[str, str]
) -> None:
    """Keep nodes float that could be quantized, with the reason."""
    for name, reason in reasons.items():
        del integers[name]
        floats[name] = reason


def _find_activations_after_float(
    integers: Mapping[str, QuantizedNode], floats: Mapping[str, str]
) -> dict[str, str]:
    """Activations whose producer stays float: a quantizer between them would cost time and gain nothing."""
    found = {}
    for name, quantized in integers.items():
        before = quantized.inputs_with_role(Role.ACTIVATION)[0]
        producer = before.producer()
        if producer is None or not quantized.spec.is_activation or producer.name not in floats:
            continue
        spec = get_spec(producer)
        if (
            spec is not None
            and spec.can_fuse_activation
            and list_consumers(before) == [quantized.node]
        ):
            found[name] = f"follows {producer.name or ''}, which stays float"
    return found


def _find_slower_on_integers(
    graph: Graph,
    integers: Mapping[str, QuantizedNode],
    target: Target,
    costs: GraphCosts | None,
) -> dict[str, str]:
    """Nodes that are faster in float by the costs measured for the target."""
    specs = {name: quantized.spec for name, quantized in integers.items()}
    names = find_nodes_faster_in_float(
        graph, specs, dict(_list_fused_activations(integers)), target, costs
    )
    source, note = describe_measured_runtime(target)
    by_itself, by_neighbours = (
        f"{source} computes it faster in float{note}",
        _FLOAT_NEIGHBOURS + note,
    )
    return {
        name: by_itself if Role.WEIGHT in specs[name].input_roles else by_neighbours
        for name in names
    }


def _leave_added_inputs_float(
    graph: Graph, integers: dict[str, QuantizedNode], target: Target
) -> dict[str, str]:
    """Let sums read the output of the convolution that computes them as float; all other sums, with the reason."""
    added = find_inputs_added_by_kernels(graph, integers)
    for name, position in added.items():
        kept = tuple(o for o in integers[name].operands if o.position != position)
        integers[name] = replace(integers[name], operands=kept)
    reason = (
        f"{target.source} adds on integers only what a convolution writes that nothing else reads"
    )
    sums = [name for name, quantized in integers.items() if quantized.spec.op == "Add"]
    return {name: reason for name in sums if name not in added}


def _list_unread_float_outputs(
    integers: Mapping[str, QuantizedNode], target: Target
) -> Iterator[str]:
    """Outputs of kernels that return float, where no quantized node reads them as integers."""
    if not target.layers_return_float:
        return
    read = {get_name(v) for i in integers.values() for v in i.inputs_with_role(Role.ACTIVATION)}
    for quantized in integers.values():
        if target.quantizes_inputs_only or has_float_result(quantized.node, quantized.spec):
            yield from (get_name(v) for v in quantized.node.outputs if get_name(v) not in read)


def _list_fused_activations(integers: Mapping[str, QuantizedNode]) -> Iterator[tuple[str, str]]:
    """Activations that are the only reader of a quantized producer that can fuse them, with that producer."""
    for name, quantized in integers.items():
        if not quantized.spec.is_activation:
            continue
        before = quantized.node.inputs[0]
        assert before is not None
        producer = before.producer()
        writer = integers.get(get_node_name(producer)) if producer is not None else None
        if (
            writer is not None
            and writer.spec.can_fuse_activation
            and list_consumers(before) == [quantized.node]
            and not before.is_graph_output()
        ):
            yield name, get_node_name(writer.node)
