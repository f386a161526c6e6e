"""Result of ``ptq.inspect``: which nodes will be quantized, which stay in float, and why; no data is needed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ptq.core.record import Record
from ptq.core.target import Target
from ptq.evaluation.report.report_data import NodeRow
from ptq.model.graph import Graph
from ptq.model.metadata import PREPROCESS, PROVENANCE, read_record
from ptq.model.node import get_operator
from ptq.rewrite.prepare.prepare import PreparedModel
from ptq.solver.assign import list_tensors_to_observe
from ptq.solver.partition.eligibility import assign_precision
from ptq.solver.skipped_nodes import SKIPPED_REASON, resolve_skipped_nodes


@dataclass(frozen=True)
class Inspection:
    """How each node of a model will be computed.

    Attributes:
        model: Path or name.
        target: Name of the target.
        opset: Opset of the original model; None for a `.tflite` file, which has none.
        changes: Changes of the graph by preparation, a sentence each; of a `.tflite` file, how to feed arrays.
        nodes: Result for each node of the prepared graph.
        observed: Number of tensors that calibration will observe; 0 for a quantized model.
        quantized: Whether the model is already quantized. ``nodes`` then says how each node runs.
        digest: SHA-256 of the graph, without its metadata.
        preprocess: The preprocessing that the model's metadata record (`ptq.core.preprocess_record`); None without.
        provenance: How ptq made the model (`ptq.api.provenance`), from its metadata; None without.
    """

    model: str
    target: str
    opset: int | None
    changes: tuple[str, ...]
    nodes: tuple[NodeRow, ...]
    observed: int
    quantized: bool = False
    digest: str = ""
    preprocess: Record | None = None
    provenance: Record | None = None


class RunStatus(Protocol):
    """How one node of a quantized model runs; see `ptq.verification.node_status`."""

    @property
    def node(self) -> str:
        """Name of the node."""
        ...

    @property
    def op(self) -> str:
        """Its operator."""
        ...

    @property
    def runs(self) -> str:
        """``integer``, ``folded``, or another word for a node in float."""
        ...

    @property
    def why(self) -> str:
        """The reason if it is not ``integer``."""
        ...


def build_inspection(
    name: str, source: Graph, prepared: PreparedModel, target: Target, skip: Collection[str]
) -> Inspection:
    """Decide int8 or float for every node of a prepared model.

    Raises:
        UsageError: A node to skip does not exist.
    """
    skipped = resolve_skipped_nodes(prepared.graph, skip, source)
    floats = {**prepared.float_nodes, **dict.fromkeys(skipped, SKIPPED_REASON)}
    assignment = assign_precision(prepared.graph, target, floats)
    nodes = []
    for node in prepared.graph.nodes:
        key = node.name or ""
        why = assignment.float_nodes.get(key, "")
        if key in assignment.fused_activations:
            why = f"may be folded into {assignment.fused_activations[key]}"
        nodes.append(
            NodeRow(
                key, get_operator(node), "float" if key in assignment.float_nodes else "int8", why
            )
        )
    return Inspection(
        model=name,
        target=target.name,
        opset=source.opset,
        changes=prepared.describe_changes(),
        nodes=tuple(nodes),
        observed=len(list_tensors_to_observe(prepared.graph)),
        digest=source.digest(),
        preprocess=read_record(source, PREPROCESS),
        provenance=read_record(source, PROVENANCE),
    )


def inspect_quantized(
    name: str, graph: Graph, target: Target, statuses: Iterable[RunStatus]
) -> Inspection:
    """How a quantized model runs, and what its metadata record.

    Args:
        name: What to call the model.
        graph: The quantized model.
        target: The target that is asked about.
        statuses: How each node runs.

    Raises:
        ModelError: A record in the metadata is damaged.
    """
    words = {"integer": "int8", "folded": "folded"}
    provenance = read_record(graph, PROVENANCE)
    recorded = _read_recorded_reasons(provenance)
    rows = []
    for status in statuses:
        result = words.get(status.runs, "float")
        why = recorded.get(status.node, status.why) if result == "float" else status.why
        rows.append(NodeRow(status.node, status.op, result, why))
    return Inspection(
        model=name,
        target=target.name,
        opset=graph.opset,
        changes=(),
        nodes=tuple(rows),
        observed=0,
        quantized=True,
        digest=graph.digest(),
        preprocess=read_record(graph, PREPROCESS),
        provenance=provenance,
    )


def _read_recorded_reasons(provenance: Record | None) -> dict[str, str]:
    """Why each node stayed float when ptq made the model; a record of another tool may hold anything."""
    grouped = (provenance or {}).get("float_nodes")
    if not isinstance(grouped, Mapping):
        return {}
    return {
        name: str(reason)
        for reason, names in grouped.items()
        if isinstance(names, list)
        for name in names
        if isinstance(name, str)
    }
