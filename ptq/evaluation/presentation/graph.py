"""Section: the graph; each node with the reason for its precision, and its tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ptq.core.wording import format_decibels
from ptq.evaluation.presentation.report_wording import NODE_RESULTS
from ptq.evaluation.report.report_data import NodeRow, ReportData, TensorRow
from ptq.page.anchors import link_to
from ptq.page.blocks import Strip, StripCell
from ptq.page.histogram import Histogram
from ptq.page.layout import lay_out
from ptq.page.network import Network, NodeView, TensorView
from ptq.page.page import Section

_BY_PRECISION = (
    ("int8", "int8"),
    ("folded", "folded into the node before"),
    ("clamp", "clamp on integers"),
    ("float", "float"),
)
_LEVELS = (
    (40.0, "e0", "40 dB and more"),
    (30.0, "e1", "30 to 40"),
    (20.0, "e2", "20 to 30"),
    (10.0, "e3", "10 to 20"),
)
_WORST, _NONE = ("e4", "below 10 dB"), ("en", "not quantized")
_BY_ERROR = (*((style, text) for _, style, text in _LEVELS), _WORST, _NONE)


def build_graph(
    report: ReportData, anchors: Mapping[str, str], histograms: Mapping[str, Histogram]
) -> Section:
    """The strip of nodes, the graph, and what is said of each node.

    Args:
        report: The report.
        anchors: Identifiers of the nodes.
        histograms: Histogram of each tensor that has one.
    """
    if not report.nodes:
        return Section("graph", "Graph", [])
    errors = _find_node_errors(report)
    writers = {name: row.name for row in report.nodes for name in row.outputs}
    readers: dict[str, list[str]] = {}
    for row in report.nodes:
        for name in row.inputs:
            readers.setdefault(name, []).append(row.name)
    by_name = {row.name: row for row in report.tensors if row.kind == "activation"}
    weights: dict[str, list[TensorRow]] = {}
    for tensor in report.tensors:
        if tensor.kind == "weight":
            weights.setdefault(tensor.node, []).append(tensor)

    def tensors_of(row: NodeRow) -> tuple[TensorView, ...]:
        views = []
        for name in dict.fromkeys(row.inputs):
            source = [writers[name]] if name in writers else []
            shown = None if source else histograms.get(name)
            views.append(
                _view(name, "reads", by_name.get(name), _list_links(source, anchors), shown)
            )
        for name in row.outputs:
            links = _list_links(readers.get(name, []), anchors)
            views.append(_view(name, "writes", by_name.get(name), links, histograms.get(name)))
        views += [_view(w.name, "weight", w, (), None) for w in weights.get(row.name, [])]
        return tuple(views)

    nodes = tuple(
        NodeView(
            row.name,
            anchors[row.name],
            row.op,
            row.fate,
            NODE_RESULTS.get(row.fate, row.fate),
            _get_error_class(errors.get(row.name)),
            "" if row.name not in errors else f"{format_decibels(errors[row.name])}",
            (row.why,) if row.why else (),
            tensors_of(row),
        )
        for row in report.nodes
    )
    numbers = {row.name: number for number, row in enumerate(report.nodes)}
    edges = [
        (numbers[writers[name]], numbers[row.name])
        for row in report.nodes
        for name in row.inputs
        if name in writers
    ]
    worst = min(errors, key=lambda name: errors[name]) if errors else ""
    network = Network(
        nodes,
        lay_out(len(nodes), edges),
        [("by-precision", "precision", _BY_PRECISION), ("by-error", "error", _BY_ERROR)],
        anchors.get(worst, ""),
    )
    cells = tuple(
        StripCell(row.fate, f"{row.name}: {row.fate}", link_to(anchors, row.name))
        for row in report.nodes
    )
    used = {row.fate for row in report.nodes}
    legend = tuple(item for item in _BY_PRECISION if item[0] in used)
    strip = Strip("Nodes in graph order, by precision", cells, legend)
    note = "Each node opens its reason, its tensors and their histograms. Keys in the graph: n, p, Escape."
    return Section("graph", "Graph", [strip, network], note)


def _find_node_errors(report: ReportData) -> dict[str, float]:
    """The lowest SQNR of what a node writes and of its weights."""
    found: dict[str, float] = {}
    for row in report.tensors:
        if row.node:
            found[row.node] = min(row.sqnr_db, found.get(row.node, row.sqnr_db))
    return found


def _get_error_class(decibels: float | None) -> str:
    if decibels is None:
        return _NONE[0]
    return next((style for least, style, _ in _LEVELS if decibels >= least), _WORST[0])


def _list_links(names: Sequence[str], anchors: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((name, link_to(anchors, name)) for name in dict.fromkeys(names))


def _view(
    name: str,
    role: str,
    row: TensorRow | None,
    links: tuple[tuple[str, str], ...],
    histogram: Histogram | None,
) -> TensorView:
    facts = []
    if row is not None:
        facts.append(
            f"SQNR {format_decibels(row.sqnr_db)} dB, {100 * row.rounding:.0f} % of the error is rounding"
        )
        facts.append(f"range {row.lo:.3g} … {row.hi:.3g} ({row.why.partition(';')[0]})")
    return TensorView(name, role, tuple(facts), links, histogram)
